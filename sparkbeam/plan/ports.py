"""Names of the ports of stages for people, and the reasons why some take elements."""

from sparkbeam.plan.join_columns import side_of
from sparkbeam.plan.model import SIDES, Exchange, Layout, Plan, Port

WHY: dict[Layout, str] = {
    Layout.GROUPS: "its groups are made of elements",
    Layout.TOTALS: "its accumulators are merged one by one",
    Layout.SESSIONS: "its sessions are merged one by one",
    Layout.SESSION_TOTALS: "its sessions are merged one by one",
    Layout.TRIGGERED: "its windows or panes are made of elements",
    Layout.STORED: "state holds elements",
    Layout.KEYED: "state and timers are asked for element by element",
    Layout.TIME_SORTED: "its elements are sorted by their time",
    Layout.SIDE_ITERABLE: "side inputs hold elements",
    Layout.SIDE_MULTIMAP: "side inputs hold elements",
}
"""Reason for layouts whose rows never hold columns."""


def name_of(plan: Plan, port: Port) -> str:
    """Return a description of the data of a port: a side of a join, or the stages that read it."""
    if port.layout in SIDES:
        return side_of(plan, port.tag)
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
