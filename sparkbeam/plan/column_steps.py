"""Report on the steps of a plan: for each, whether it takes columns, and the reason if not."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from sparkbeam.columns import DataDependent, Refused
from sparkbeam.plan.column_flow import ColumnFlow, StageFlow
from sparkbeam.plan.model import ColumnStep, Exchange, Plan, Port, Stage
from sparkbeam.plan.planned_step import PlannedStep
from sparkbeam.plan.ports import name_of
from sparkbeam.plan.row_formats import JoinRows


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


def with_column_steps(plan: Plan, flow: ColumnFlow) -> Plan:
    """Return the plan with the descriptions of steps in its stages.

    Args:
        flow: the columns in its stages.
    """
    report = _ColumnReport(flow)
    stages = (replace(one, column_steps=tuple(report.steps(one))) for one in plan.stages)
    return replace(plan, stages=tuple(stages))


@dataclass
class _ColumnReport:
    """Pass through the stages in an order in which they can run.

    Attributes:
        written: the contents of ports, by their tags.
    """

    flow: ColumnFlow
    written: dict[int, _Held] = field(default_factory=dict)

    def steps(self, stage: Stage) -> Iterator[ColumnStep]:
        """Yield the steps of a stage, which comes behind those that it reads."""
        flow = self.flow.stages[stage.id]
        known = _taking(flow)
        held: dict[str, _Held] = {flow.parsed.main_input: self._arriving(stage)}
        held |= {name: _COLUMNS for name in flow.held if flow.shapes(name)}
        for label, planned in flow.steps.items():
            transform = planned.transform
            taken = next((held[name] for name in transform.inputs.values() if name in held), _MAYBE)
            step = known.get(label) or _step(planned, taken, held)
            yield step
            maker = taken.maker if isinstance(taken, _Elements) else stage.applied(label)
            after: _Held = _MAYBE if step.reason is None else _Elements(maker)
            for output in transform.outputs.values():
                held.setdefault(output, after)
        for port in sorted(stage.ports, key=lambda port: not isinstance(port.format, JoinRows)):
            yield from self._port(flow, port, held.get(port.pcollection, _MAYBE))

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
        source = self.flow.plan.source(tag)
        return self.written.get(tag, _MAYBE) if source is None else _Elements(source.label)

    def _port(self, flow: StageFlow, port: Port, held: _Held) -> Iterator[ColumnStep]:
        """Note the content of a port; report a side of a join, or that it takes elements."""
        behind = [flow.behind(port, shape) for shape in flow.shapes(port.pcollection)]
        reasons = [one.reason for one in behind if isinstance(one, Refused)]
        name = name_of(self.flow.plan, port)
        if isinstance(port.format, JoinRows):
            if behind:
                yield ColumnStep(name, reasons[-1] if reasons else None)
        elif held == _COLUMNS and (port.format.why_elements or len(reasons) == len(behind) > 0):
            yield ColumnStep(name, port.format.why_elements or reasons[0])
            held = _Elements(f"'{name}'")
        self.written[port.tag] = held


def _taking(flow: StageFlow) -> dict[str, ColumnStep]:
    """Return the steps that get columns, by label."""
    found: dict[str, ColumnStep] = {}
    for (label, _), result in flow.results.items():
        reason = result.reason if isinstance(result, Refused) else None
        if reason is not None or label not in found:
            found[label] = ColumnStep(label, reason, not isinstance(result, DataDependent))
    return found


def _step(planned: PlannedStep, taken: _Held, held: dict[str, _Held]) -> ColumnStep:
    """Report on a step that does not certainly get columns, or that hands them on."""
    operator, label = planned.operator, planned.label
    if any(held.get(output) == _COLUMNS for output in planned.transform.outputs.values()):
        return ColumnStep(label, None)
    if operator.creates_columns(planned):
        return ColumnStep(label, None, is_certain=False)
    if isinstance(taken, _Elements):
        maker = "it" if taken.maker == planned.stage.applied(label) else taken.maker
        return ColumnStep(label, f"{maker} makes them")
    is_certain = operator.reason is not None or taken == _COLUMNS
    return ColumnStep(label, operator.reason, is_certain)
