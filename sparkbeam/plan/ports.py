"""Names of the ports of stages for people."""

from sparkbeam.plan.join_payload import LEFT, RIGHT
from sparkbeam.plan.model import Exchange, Plan, Port
from sparkbeam.plan.row_formats import JoinRows


def name_of(plan: Plan, port: Port) -> str:
    """Return a description of the data of a port: a side of a join, or the stages that read it."""
    if isinstance(port.format, JoinRows):
        return next(
            f"{stage.labels[0]} ({side})"
            for stage in plan.stages
            if stage.join is not None
            for side, tags in ((LEFT, stage.join.left), (RIGHT, stage.join.right))
            if port.tag in tags
        )
    main = [stage for stage in plan.stages if port.tag in stage.inputs]
    if not main:
        readers = (
            stage.id
            for stage in plan.stages
            if any(port.tag in side.sources for side in stage.side_inputs)
        )
        return f"to side inputs of {', '.join(readers)}"
    kinds = {Exchange.REBALANCE: "Reshuffle to ", Exchange.BY_KEY: "shuffle by key to "}
    kind = kinds.get(main[0].exchange, "to ")
    return f"{kind}{', '.join(stage.id for stage in main)}"
