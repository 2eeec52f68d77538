"""How reading of the partitions goes: what the planner tells those who watch."""

import importlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sparkbeam.common.arguments import shown
from sparkbeam.errors import ConfigurationError
from sparkbeam.eventhubs.settings import unpacked

_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True)
class PartitionStatus:
    """A partition when a micro-batch is planned.

    Attributes:
        partition: its number.
        lag: how many events are left in the hub behind the micro-batch.
        factor: how much of its share the micro-batch takes; below 1 for a slow partition.
        events: how many the last reading had that a task has told of; 0 before the first.
        seconds: how long that took.
    """

    partition: int
    lag: int
    factor: float = 1.0
    events: int = 0
    seconds: float = 0.0


Watch = Callable[[Sequence[PartitionStatus]], None]
"""Takes the partitions in their order; called where micro-batches are planned, if there is news."""


class Monitor:
    """A function of the user's as a :data:`Watch`; what it raises is logged and does no harm.

    Where it is not there, the first call raises a :class:`ConfigurationError`.

    Args:
        pickled: the function, as :func:`~sparkbeam.eventhubs.settings.packed` gives it.
        name: ``package.module.function``, in place of that.
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
                _LOGGER.warning("The monitor of slow partitions has failed: %s", problem)

    def _function(self) -> Watch:
        if self._pickled is not None:
            found: Watch = unpacked(self._pickled)
            return found
        module, _, function = self._name.rpartition(".")
        try:
            named: Watch = getattr(importlib.import_module(module), function)
        except (ImportError, AttributeError, ValueError) as error:
            raise ConfigurationError(
                f"slowPartitionMonitor={shown(self._name)}: there is no such function where "
                f"micro-batches are planned, on the machine of the driver. ({error})"
            ) from None
        return named


class Watched:
    """Tells those who watch, when there is news."""

    def __init__(self, watches: Sequence[Watch]) -> None:
        self._watches = watches
        self._last: Sequence[PartitionStatus] = ()

    def __bool__(self) -> bool:
        return bool(self._watches)

    def tell(self, statuses: Sequence[PartitionStatus]) -> None:
        """Hands on how partitions are now."""
        if statuses != self._last:
            self._last = statuses
            for watch in self._watches:
                watch(statuses)
