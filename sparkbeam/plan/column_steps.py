"""Report on the steps of a plan: for each, whether it takes columns, and the reason if not."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from sparkbeam.plan.column_types import Begun, ColumnFlow, ColumnStep
from sparkbeam.plan.memo import memo
from sparkbeam.plan.model import Exchange, Plan, Port, Stage
from sparkbeam.plan.planned_step import PlannedStep
from sparkbeam.plan.ports import name_of
from sparkbeam.plan.source_columns import Origins, column_steps


@dataclass(frozen=True)
class _Elements:
    """Content of a PCollection without columns.

    Attributes:
        maker: a description of the step that makes the elements.
    """

    maker: str


_COLUMNS, _MAYBE = "columns", "known when it runs"
_Held: TypeAlias = _Elements | str
"""Content of a PCollection: elements, columns, or known only at run time."""


@memo()
def steps_by_stage(plan: Plan) -> dict[str, list[ColumnStep]]:
    """Return the steps of all stages by stage id, and the outputs that leave as elements.

    Empty if there can be no columns, as with ``--columns=off``.
    """
    report = _ColumnReport(plan)
    return {stage.id: list(report.steps(stage)) for stage in plan.stages if stage.in_columns}


@dataclass
class _ColumnReport:
    """Pass through the stages in an order in which they can run.

    Attributes:
        written: the contents of ports, by their tags.
    """

    plan: Plan
    begins: Origins = field(default_factory=lambda: Origins(behind_combines=True))
    written: dict[int, _Held] = field(default_factory=dict)

    def steps(self, stage: Stage) -> Iterator[ColumnStep]:
        """Yield the steps of a stage, which comes behind those that it reads."""
        walk, begun = self.begins.of(self.plan, stage)
        known = {step.label: step for step in column_steps(self.plan, stage, self.begins)}
        held: dict[str, _Held] = {walk.parsed.main_input: self._arriving(stage)}
        held |= dict.fromkeys(walk.columns(begun), _COLUMNS)
        for label, planned in walk.steps.items():
            transform = planned.transform
            taken = next((held[name] for name in transform.inputs.values() if name in held), _MAYBE)
            step = known.pop(label, None) or _step(planned, taken, held)
            yield step
            maker = taken.maker if isinstance(taken, _Elements) else applied(stage, label)
            after: _Held = _MAYBE if step.reason is None else _Elements(maker)
            for output in transform.outputs.values():
                held.setdefault(output, after)
        yield from known.values()
        for port in stage.ports:
            yield from self._port(walk, begun, port, held.get(port.pcollection, _MAYBE))

    def _arriving(self, stage: Stage) -> _Held:
        """Return the content of a stage's main input, if it is not known to be columns."""
        if stage.exchange is Exchange.IMPULSE:
            return _Elements(stage.labels[0])
        if stage.grouping is not None and stage.grouping.combines:
            return _MAYBE
        if stage.exchange is Exchange.BY_KEY and stage.format.why_elements is not None:
            what = "shuffle by key" if stage.grouping is None else "GroupByKey"
            return _Elements(f"the {what} before it")
        held = [self._of_tag(tag) for tag in stage.inputs]
        elements = [one for one in held if isinstance(one, _Elements)]
        return elements[0] if elements and len(elements) == len(held) else _MAYBE

    def _of_tag(self, tag: int) -> _Held:
        source = self.plan.source(tag)
        return self.written.get(tag, _MAYBE) if source is None else _Elements(source.label)

    def _port(
        self, walk: ColumnFlow, begun: Begun, port: Port, held: _Held
    ) -> Iterator[ColumnStep]:
        """Note the content of a port; report it if it takes columns as elements."""
        reason = None
        if held == _COLUMNS:
            reason = port.format.why_elements or walk.why_encoded(port, begun)
        if reason is not None:
            name = name_of(self.plan, port)
            yield ColumnStep(name, reason)
            held = _Elements(f"'{name}'")
        self.written[port.tag] = held


def _step(planned: PlannedStep, taken: _Held, held: dict[str, _Held]) -> ColumnStep:
    """Report on a step that does not certainly get columns, or that hands them on."""
    operator, label = planned.operator, planned.label
    if any(held.get(output) == _COLUMNS for output in operator.results(planned)):
        return ColumnStep(label, None)
    if operator.creates_columns(planned):
        return ColumnStep(label, None, is_certain=False)
    if isinstance(taken, _Elements):
        maker = "it" if taken.maker == applied(planned.stage, label) else taken.maker
        return ColumnStep(label, f"{maker} makes them")
    reason = operator.describe(planned)
    return ColumnStep(label, reason, is_certain=reason is not None or taken == _COLUMNS)


def applied(stage: Stage, label: str) -> str:
    """Return the user's label of the step that a transform is a part of."""
    outer = [name for name in stage.labels if label == name or label.startswith(f"{name}/")]
    return max(outer, key=len, default=label)
