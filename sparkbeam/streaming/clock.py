"""The clock of a query."""

import logging

from sparkbeam.wire.timestamps import now_micros

_LEAST_JUMP = 1_000_000
"""How far back, in microseconds, is worth a word."""

_logger = logging.getLogger(__name__)


class Clock:
    """The machine's clock, but it never goes back.

    Where the machine's does, as somebody sets it or the query has moved to another one, this
    goes on from where it was, as fast as ever, until the other has come up with it by itself.
    """

    def __init__(self) -> None:
        self._ahead = 0
        self._latest = 0

    def after(self, last: int) -> int:
        """The time, not before ``last``; in microseconds since the epoch."""
        machine, latest = now_micros(), max(last, self._latest)
        if machine >= latest:
            self._ahead = 0
        jump = latest - (machine + self._ahead)
        if jump > 0:
            self._ahead += jump
        if jump >= _LEAST_JUMP:
            _logger.warning(
                "The machine's clock has gone back by %.1f s: the time of the pipeline goes on "
                "from where it was, %.1f s ahead of the clock.",
                jump / 1_000_000,
                self._ahead / 1_000_000,
            )
        self._latest = machine + self._ahead
        return self._latest
