"""Steps of a stage that take the columns of a source, found without running them."""

from collections.abc import Iterable, Iterator
from itertools import chain

from sparkbeam.columns import (
    RecordShape,
    Refused,
    Shape,
)
from sparkbeam.plan.column_types import Begun, ColumnFlow, ColumnStep, rows_in_columns, walk_of
from sparkbeam.plan.group_columns import groups_of
from sparkbeam.plan.join_columns import side_of, triples
from sparkbeam.plan.model import Plan, Port, Stage
from sparkbeam.plan.row_formats import GroupRows, JoinRows


def column_steps(plan: Plan, stage: Stage, begun: "Origins | None" = None) -> list[ColumnStep]:
    """Return the steps of a stage that get columns, up to those that make elements of them."""
    walk, begins = (begun or Origins()).of(plan, stage)
    found: dict[str, ColumnStep] = {}
    for step in chain(walk.taking(begins), _sides(plan, stage, walk, begins)):
        if step.reason is not None or step.label not in found:
            found[step.label] = step
    return list(found.values())


def _sides(plan: Plan, stage: Stage, walk: "ColumnFlow", begins: "Begun") -> Iterator[ColumnStep]:
    """Yield the sides of joins that get columns."""
    for port in stage.ports:
        if isinstance(port.format, JoinRows):
            for side in walk.joined(port, begins):
                reason = side.reason if isinstance(side, Refused) else None
                yield ColumnStep(side_of(plan, port.tag), reason)


class Origins:
    """Starting points of columns in stages.

    Each stage is followed once, after the stages that it reads. The way in which these hand on
    their output may change meanwhile.
    """

    def __init__(self, *, behind_combines: bool = False) -> None:
        self._behind_combines = behind_combines
        self._known: dict[str, tuple[ColumnFlow, Begun]] = {}

    def of(self, plan: Plan, stage: Stage) -> "tuple[ColumnFlow, Begun]":
        """Return the walk that follows columns through a stage, and the columns it begins with."""
        if stage.id not in self._known:
            walk = walk_of(stage, self._tagged(plan, stage))
            self._known[stage.id] = walk, self._begun(plan, stage, walk)
        return self._known[stage.id]

    def pairs(self, plan: Plan, tag: int) -> list[RecordShape]:
        """Return the shapes of the pairs that a port gets, and a GroupByKey takes, as columns."""
        if plan.source(tag) is not None:
            return []
        walk, begins = self.of(plan, plan.producer(tag))
        return walk.pairs(_port(plan, tag), begins) if begins else []

    def _begun(self, plan: Plan, stage: Stage, walk: "ColumnFlow") -> Begun:
        begins = list(walk.read(rows_in_columns(plan, stage)))
        if stage.in_columns:
            begins += walk.created(plan)
            begins += [(walk.parsed.main_input, shape) for shape in self._arriving(plan, stage)]
            if self._behind_combines:
                begins += self._combined(plan, stage, walk)
        return begins

    def _combined(
        self, plan: Plan, stage: Stage, walk: "ColumnFlow"
    ) -> Iterator[tuple[str, Shape]]:
        """Yield the shapes of a combine's results behind a shuffle, if accumulators are columns."""
        if stage.grouping is None or not stage.grouping.merges_columns:
            return
        for tag in dict.fromkeys(stage.inputs):
            maker, begins = self.of(plan, plan.producer(tag))
            for pair in maker.combined(_port(plan, tag), begins) if begins else ():
                yield from walk.outcomes(pair)

    def _tagged(self, plan: Plan, stage: Stage) -> tuple[tuple[str, Shape], ...]:
        """Return the shape of the values of each tag, except for values of several types."""
        if not stage.in_columns or stage.format != GroupRows(packed=True):
            return ()
        found: dict[str, set[Shape]] = {}
        for tag in dict.fromkeys(stage.inputs):
            walk, begins = self.of(plan, plan.producer(tag))
            for name, shape in walk.tags(_port(plan, tag), begins) if begins else ():
                found.setdefault(name, set()).add(shape)
        return tuple((name, shapes.pop()) for name, shapes in found.items() if len(shapes) == 1)

    def _arriving(self, plan: Plan, stage: Stage) -> Iterator[Shape]:
        """Yield the Python shapes of the columns that other stages hand on to a stage."""
        if stage.join is not None:
            sides = (self._written(plan, tags) for tags in (stage.join.left, stage.join.right))
            yield from triples(stage.join.spec, *sides)
        elif stage.format == GroupRows(packed=True):
            yield from groups_of(self._written(plan, stage.inputs))
        else:
            yield from self._written(plan, stage.inputs)

    def _written(self, plan: Plan, tags: Iterable[int]) -> Iterator[Shape]:
        """Yield the Python shapes of the columns that ports get and hand on."""
        for tag in dict.fromkeys(tags):
            if plan.source(tag) is None:
                walk, begins = self.of(plan, plan.producer(tag))
                if begins:
                    yield from walk.written(_port(plan, tag), begins)


def _port(plan: Plan, tag: int) -> Port:
    (port,) = [port for port in plan.producer(tag).ports if port.tag == tag]
    return port
