"""The clock of a query."""

import logging

from sparkbeam.wire.timestamps import now_micros

_LEAST_JUMP = 1_000_000
"""Smallest backward jump, in microseconds, that is logged."""

_logger = logging.getLogger(__name__)


class Clock:
    """Monotonic version of the machine's clock.

    If the machine's clock is set back, or the query has moved to another machine, this clock
    continues from its last time at normal speed until the machine's clock has caught up.
    """

    def __init__(self) -> None:
        self._ahead = 0
        self._latest = 0

    def after(self, last: int) -> int:
        """Return the time in microseconds since the epoch, not before ``last``."""
        machine, latest = now_micros(), max(last, self._latest)
        if machine >= latest:
            self._ahead = 0
        jump = latest - (machine + self._ahead)
        if jump > 0:
            self._ahead += jump
        if jump >= _LEAST_JUMP:
            _logger.warning(
                "The machine's clock went back by %.1f s: the pipeline's time continues, %.1f s "
                "ahead of the clock.",
                jump / 1_000_000,
                self._ahead / 1_000_000,
            )
        self._latest = machine + self._ahead
        return self._latest
