"""The operator of a step: one module of :mod:`sparkbeam.operators` for each.

An operator is plain data. The plan chooses it once, follows columns through it, and explains it;
workers get it with their stage and have it run the step.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, TypeAlias

from sparkbeam.columns import ALL, Compiled, DataDependent, Paths, RecordShape, Refused, Shape
from sparkbeam.plan.arrow_batches import NeededColumns
from sparkbeam.plan.model import Plan, Stage
from sparkbeam.plan.planned_step import PlannedStep

BEAMS_OWN = "it runs as Beam's own operation"
"""Reason why a step without an operation of sparkbeam takes single elements."""


@dataclass(frozen=True)
class Accumulators:
    """Accumulators as numbers in columns, between the phases of a combine.

    Attributes:
        output: the type of the pairs of a key and an output; None if they are no columns.
    """

    output: RecordShape | None


Result: TypeAlias = Compiled | Refused | DataDependent | RecordShape | Accumulators | None
"""Columns behind a step, or the reason why it takes elements; None if only the data can tell.

A function that parses JSON is :class:`DataDependent`: its data tell whether it takes columns, too.
"""


@dataclass(frozen=True)
class Operator(ABC):
    """A step of a stage and the operation that runs it.

    Attributes:
        label: the label of the step, which is the id of its transform.
        reason: the reason why it takes single elements; None if it may take columns.
        needed: of a step that reads tables, the columns that are needed; None for all.
    """

    label: str
    reason: str | None = None
    needed: NeededColumns | None = field(default=None, kw_only=True)

    over_blocks: ClassVar[bool] = True
    """False if no operation of Beam's can replace it, or it is one."""

    creates: ClassVar[bool] = False
    """True if each task emits a share of values that the step holds."""

    reads_tables: ClassVar[bool] = False
    """True if it makes elements of the rows of Arrow tables."""

    urn: ClassVar[str] = ""
    """URN of the transforms that it matches; other conditions are those of ``matches``."""

    @classmethod
    def matches(cls, step: PlannedStep) -> Self | None:
        """Return the operator for a step, with its reason; None if it does not suit the step."""
        return cls(step.label) if step.urn == cls.urn else None

    def output_type(self, step: PlannedStep, shape: Shape) -> Result:
        """Return the type of its output if it gets columns of a shape, or the reason for elements.

        Called at planning time. None: takes columns; its output is unknown until run time.
        """
        return Refused(self.reason or BEAMS_OWN)

    @abstractmethod
    def run(self, step: Any) -> Any:
        """Make the operation that runs a step.

        Called in workers.

        Args:
            step: a :class:`sparkbeam.worker.steps.step.Step`.

        Returns:
            An operation of Beam's.
        """

    @property
    def hands_on(self) -> bool:
        """True if its elements are handed on unchanged, and it reads none of them."""
        return False

    def created_type(self, plan: Plan, step: PlannedStep) -> Shape | None:
        """Return the type of the columns that it makes of tables or batches; None if unknown."""
        return None

    def creates_columns(self, step: PlannedStep) -> bool:
        """Return whether it may make columns of tables or batches."""
        return self.reads_tables

    def reads(self, step: PlannedStep) -> Paths:
        """Return the parts of its elements that it reads if columns end here."""
        return ALL

    def merged_type(self, accumulators: Accumulators) -> Result:
        """Return the type of its output if it gets accumulators, as :meth:`output_type` does."""
        return Refused(BEAMS_OWN)


Planner: TypeAlias = Callable[[Stage], tuple[Operator, ...]]
"""Chooses the operators of a stage, in an order in which its steps can run."""
