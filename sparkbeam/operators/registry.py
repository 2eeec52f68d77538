"""The list of operators, in the order in which the plan tries them.

The first that matches a step runs it. Beam's own operation suits all.
"""

from sparkbeam.operators.arguments import FunctionWithArguments
from sparkbeam.operators.batches import Batches
from sparkbeam.operators.beam import Beam
from sparkbeam.operators.create import Create
from sparkbeam.operators.dofn import DoFn
from sparkbeam.operators.fire import Fire
from sparkbeam.operators.function import Function
from sparkbeam.operators.identity import Identity
from sparkbeam.operators.merge import Extract, Merge
from sparkbeam.operators.parquet_writes import ParquetTables
from sparkbeam.operators.precombine import Precombine, StampedPrecombine
from sparkbeam.operators.process import Process
from sparkbeam.operators.restrictions import Restrictions
from sparkbeam.operators.sink_rows import SinkRows
from sparkbeam.operators.stateful import Stateful, StatefulDoFn
from sparkbeam.operators.table_rows import TableRows
from sparkbeam.operators.text_lines import TextLines
from sparkbeam.operators.windows import Windows
from sparkbeam.plan.model import Stage
from sparkbeam.plan.operator import Operator
from sparkbeam.plan.parsed_stage import parsed
from sparkbeam.plan.planned_step import PlannedStep

OPERATORS: tuple[type[Operator], ...] = (
    *(Create, Fire, StampedPrecombine),
    *(TableRows, SinkRows, Batches, ParquetTables),
    *(Function, FunctionWithArguments, Process, DoFn, StatefulDoFn),
    *(Identity, Windows),
    *(Precombine, Merge, Extract),
    *(Stateful, TextLines, Restrictions, Beam),
)

ELEMENTWISE = tuple(operator for operator in OPERATORS if not operator.over_blocks)
"""Operators that take single elements: Beam's own operation, and transforms that only we have."""


def operators_of(stage: Stage) -> tuple[Operator, ...]:
    """Choose the operators of a stage, in an order in which its steps can run."""
    steps = (PlannedStep(stage, transform) for transform in parsed(stage).in_order())
    return tuple(map(_chosen, steps))


def _chosen(step: PlannedStep) -> Operator:
    found = (operator.matches(step) for operator in OPERATORS)
    return next(operator for operator in found if operator is not None)
