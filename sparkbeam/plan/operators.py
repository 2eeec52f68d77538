"""The operators of a stage, which the plan chooses and workers instantiate by their kind."""

from dataclasses import dataclass
from enum import Enum

BEAMS_OWN = "it runs as Beam's own operation"
"""Reason why a step without an operation of sparkbeam takes single elements."""


class Kind(Enum):
    """Operation that runs a step; :mod:`sparkbeam.plan.operator_choice` has the rules."""

    CREATE = "a share of the values of a Create"
    FIRE = "panes of accumulators"
    TABLE_ROWS = "rows of Arrow tables"
    SINK_ROWS = "rows for a sink of Spark"
    BATCHES = "batches of elements"
    PARQUET_TABLES = "tables for Parquet"
    FUNCTION = "a function of the element"
    ARGUMENTS = "a function of the element and arguments"
    TIMESTAMPS = "elements with their timestamps"
    PROCESS = "a DoFn of the element alone"
    DOFN = "a DoFn over blocks"
    STATEFUL_DOFN = "a stateful DoFn over blocks"
    IDENTITY = "elements as they are"
    WINDOWS = "the assignment of windows"
    SESSION_COMBINE = "a combine of sessions before the shuffle"
    PRECOMBINE = "a combine before the shuffle"
    MERGE = "a merge of accumulators"
    EXTRACT = "the outputs of accumulators"
    STATEFUL = "Beam's operation with the state of the stage"
    RESTRICTIONS = "a splittable DoFn"
    BEAM = "Beam's operation"


@dataclass(frozen=True)
class Operator:
    """A step of a stage and the operation that runs it.

    Attributes:
        label: the label of the step, which is the id of its transform.
        kind: the kind of the operation that runs it.
        reason: the reason why it takes single elements; None if it may take columns.
    """

    label: str
    kind: Kind
    reason: str | None = None
