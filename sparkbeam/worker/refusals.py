"""Blocks of columns that a step takes as elements all the same, counted with the reason."""

from apache_beam.metrics import Metrics
from apache_beam.runners.worker import operations

from sparkbeam.wire.reports import NAMESPACE, REFUSED_BLOCKS

SCATTERED = "its elements are spread over too many windows"
"""Reason why blocks whose elements have separate windows are taken apart."""


def count_refused(reason: str) -> None:
    """Count a block of columns that the step at work has to take element by element.

    The counter is ``refused_blocks`` with the reason, in the namespace ``sparkbeam`` of the step's
    metrics.
    """
    Metrics.counter(NAMESPACE, f"{REFUSED_BLOCKS}{reason}").inc()


def count_refused_by(step: operations.Operation, reason: str) -> None:
    """Count a refused block of another step."""
    with step.scoped_process_state:
        count_refused(reason)
