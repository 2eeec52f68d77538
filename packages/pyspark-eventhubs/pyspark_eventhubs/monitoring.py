"""Statuses of partitions, passed from the planner to observers."""

import importlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark_eventhubs.checks import shown
from pyspark_eventhubs.settings import unpacked

_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True)
class PartitionStatus:
    """A partition when a micro-batch is planned.

    Attributes:
        partition: its number.
        lag: the number of events left in the partition behind the micro-batch.
        factor: the fraction of its share that the micro-batch reads; below 1 for a slow partition.
        events: the number of events in the last reported read; 0 before the first.
        seconds: the duration of that read.
    """

    partition: int
    lag: int
    factor: float = 1.0
    events: int = 0
    seconds: float = 0.0


Watch = Callable[[Sequence[PartitionStatus]], None]
"""Observer of the partitions in order; called by the planner when their statuses change."""


class PartitionMonitor:
    """A user's function as a :data:`Watch`; its exceptions are logged and ignored.

    If the function cannot be imported, the first call raises a ValueError.

    Args:
        pickled: the function, pickled by :func:`~pyspark_eventhubs.settings.packed`.
        name: ``package.module.function`` instead of that.
    """

    def __init__(self, pickled: str | None = None, name: str = "") -> None:
        # Tasks get it too, which may not have what the function needs.
        self._pickled = pickled
        self._name = name
        self._told = ""

    def __call__(self, statuses: Sequence[PartitionStatus]) -> None:
        function = self._function()
        try:
            function(statuses)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
            if problem != self._told:
                self._told = problem
                _LOGGER.warning("The monitor of slow partitions failed: %s", problem)

    def _function(self) -> Watch:
        if self._pickled is not None:
            found: Watch = unpacked(self._pickled)
            return found
        module, _, function = self._name.rpartition(".")
        try:
            named: Watch = getattr(importlib.import_module(module), function)
        except (ImportError, AttributeError, ValueError) as error:
            raise ValueError(
                f"slowPartitionMonitor={shown(self._name)}: function not found in the process that "
                f"plans micro-batches, on the driver's machine. ({error})"
            ) from None
        return named


class Watched:
    """Observers of partition statuses, which are called on changes."""

    def __init__(self, watches: Sequence[Watch]) -> None:
        self._watches = watches
        self._last: Sequence[PartitionStatus] = ()

    def __bool__(self) -> bool:
        return bool(self._watches)

    def tell(self, statuses: Sequence[PartitionStatus]) -> None:
        """Pass the current partition statuses on, if they have changed."""
        if statuses != self._last:
            self._last = statuses
            for watch in self._watches:
                watch(statuses)
