"""Stage graph of a plan as plain data, for pages and flowcharts."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sparkbeam.common.untrusted_json import parsed
from sparkbeam.explain import describe
from sparkbeam.plan.grouping import GroupStrategy
from sparkbeam.plan.model import Exchange, Plan, Stage
from sparkbeam.plan.row_formats import KeyedRows

SIDE = "side"
"""Kind of a side input."""

_KINDS = frozenset([SIDE, *(exchange.value for exchange in Exchange)])

_TEXTS = {
    Exchange.IMPULSE: "impulse",
    Exchange.FORWARD: "same task",
    Exchange.REBALANCE: "rebalance",
    Exchange.BY_KEY: "shuffle by key",
    Exchange.JOIN: "join",
}


@dataclass(frozen=True)
class StageInput:
    """An input of a stage.

    Attributes:
        kind: the value of an :class:`.Exchange`, or ``SIDE``.
    """

    kind: str
    text: str


@dataclass(frozen=True)
class StageBox:
    """A stage.

    Attributes:
        ways: its main input, then its side inputs if it has any.
    """

    id: str
    labels: tuple[str, ...]
    ways: tuple[StageInput, ...]
    tip: str
    note: str = ""


@dataclass(frozen=True)
class Arrow:
    """An edge between two stages, given by their ids, with the kind of input."""

    producer: str
    reader: str
    kind: str


@dataclass(frozen=True)
class Sketch:
    """The graph, with stages in topological order."""

    boxes: tuple[StageBox, ...]
    arrows: tuple[Arrow, ...]

    @classmethod
    def from_content(cls, content: Any) -> "Sketch":
        """Parse untrusted content of its fields.

        Raises:
            ValueError: the content is not a graph.
        """
        found = parsed(cls, content)
        boxes, arrows = found.boxes, found.arrows
        kinds = [[way.kind for way in box.ways] for box in boxes]
        if not all(1 <= len(each) <= 2 and _KINDS.issuperset(each) for each in kinds):
            raise ValueError("A stage of the graph has no input.")
        places = {box.id: number for number, box in enumerate(boxes)}
        ways = {(box.id, way.kind) for box in boxes for way in box.ways}
        if len(places) != len(boxes) or not all(
            (arrow.reader, arrow.kind) in ways
            and places.get(arrow.producer, len(boxes)) < places[arrow.reader]
            for arrow in arrows
        ):
            raise ValueError("An arrow of the graph has no stage.")
        return found


def sketch(plan: Plan) -> Sketch:
    """Return the graph of a plan."""
    arrows = (
        Arrow(
            edge.producer.id,
            edge.reader.id,
            SIDE if edge.side_inputs else edge.reader.exchange.value,
        )
        for edge in describe.edges(plan)
    )
    return Sketch(tuple(_boxes(plan)), tuple(arrows))


def _boxes(plan: Plan) -> Iterator[StageBox]:
    for stage in plan.stages:
        tip = f"{stage.id}: {', '.join(stage.labels)}"
        if stage.grouping is not None:
            tip += f"\ngroup {describe.grouping(stage.grouping)}"
        yield StageBox(stage.id, stage.labels, tuple(_ways(stage)), tip, _note(plan, stage))


def _note(plan: Plan, stage: Stage) -> str:
    times = plan.persisted_reads(stage)
    if times:
        return f"persisted, read {times} times"
    return "kept in files" if any(port.tag in plan.kept for port in stage.ports) else ""


def _ways(stage: Stage) -> Iterator[StageInput]:
    detail = _detail(stage) if stage.exchange is Exchange.BY_KEY else ""
    yield StageInput(stage.exchange.value, f"{_TEXTS[stage.exchange]}{detail}")
    if stage.side_inputs:
        yield StageInput(SIDE, "side input")


def _detail(stage: Stage) -> str:
    if stage.grouping is not None:
        strategy = stage.grouping.strategy
        return "" if strategy is GroupStrategy.WINDOWS else f", {strategy.name.lower()}"
    if isinstance(stage.format, KeyedRows):
        return ", by time" if stage.format.by_time else ", state"
    return ""
