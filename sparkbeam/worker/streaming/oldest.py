"""Watermark hold of a stage with keys, found at bounded cost."""

from sparkbeam.worker.state.pages import KeyedState, ShardState, TooLarge
from sparkbeam.worker.state.records import Hold

_USUAL_BYTES = 64 << 10
_MOST_BYTES = 4 << 20
_PERIOD = 5_000_000


class OldestHold:
    """The oldest hold of a stage in a shard.

    The hold is in one page of state, which the directory identifies. A page of up to 64 KiB is read
    at the end of each micro-batch that needs the hold. A larger one, of up to 4 MiB, is read only
    if the hold has changed, and at the earliest five seconds after the last time. These are
    measured by the clock of the pipeline, so that a micro-batch that runs again finds the same. The
    result is stored.
    """

    def __init__(self, keyed: KeyedState, shard: ShardState, name: str) -> None:
        self._keyed = keyed
        self._shard = shard
        self._name = name

    def find(self, clock: int) -> Hold | None:
        """Return the hold; None if it is not known.

        Args:
            clock: the time in microseconds.
        """
        try:
            found = self._keyed.oldest_hold(_USUAL_BYTES)
        except TooLarge:
            return self._rarely(clock)
        self._shard.set_value(self._name, None)
        return found

    def _rarely(self, clock: int) -> Hold | None:
        """Return the hold of a large page."""
        micros = self._keyed.hold()
        looked, stored = self._shard.value(self._name) or (None, None)
        known = None if stored is None else Hold(*stored)
        if known is not None and known.micros == micros:
            return known
        if looked is not None and clock < looked + _PERIOD:
            return None
        try:
            found = self._keyed.oldest_hold(_MOST_BYTES)
        except TooLarge:
            found = None
        self._shard.set_value(self._name, (clock, None if found is None else tuple(found)))
        return found
