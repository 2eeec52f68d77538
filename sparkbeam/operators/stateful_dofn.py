"""DoFns with state or timers, which are looked up once for the elements of a key in a row."""

from typing import Self

from apache_beam.runners.worker import operations

from sparkbeam.operators.beam import why_called
from sparkbeam.operators.dofn import asks_for_known_parameters
from sparkbeam.plan.operator import Operator
from sparkbeam.plan.planned_step import PlannedStep
from sparkbeam.worker.steps.dofns import StatefulOperation, prepared, signature_of, with_states
from sparkbeam.worker.steps.step import Step


class StatefulDoFn(Operator):
    """A stateful DoFn over blocks."""

    @classmethod
    def matches(cls, step: PlannedStep) -> Self | None:
        fn = step.dofn if step.is_stateful else None
        asks = fn is not None and asks_for_known_parameters(fn, stateful=True)
        return cls(step.label, why_called(step)) if asks else None

    def run(self, step: Step) -> operations.Operation:
        made = prepared(step, with_states(step, StatefulOperation))
        made.ask(signature_of(step.dofn.fn))
        return made
