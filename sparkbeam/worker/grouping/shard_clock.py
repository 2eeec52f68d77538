"""Time in a shard as a stage sees it."""

from dataclasses import dataclass

from sparkbeam.wire.timestamps import MAX_MICROS, MIN_MICROS


@dataclass
class ShardClock:
    """Both watermarks of a stage and the clock, in microseconds since the epoch.

    It is the clock of Beam's trigger driver as well.

    Attributes:
        until: see :class:`~sparkbeam.wire.messages.Tick`.
        resuming: likewise, in the first round of the micro-batch.
    """

    input_watermark: int = MIN_MICROS
    output_watermark: int = MIN_MICROS
    clock: int = 0
    draining: bool = False
    until: int | None = None
    resuming: bool = False

    def time(self) -> float:
        """Return the processing time in seconds."""
        return self.clock / 1e6

    def processing_limit(self) -> int:
        """Return the time up to which timers in processing time fire.

        If no more input can come, there is nothing to wait for.
        """
        return MAX_MICROS if self.input_watermark >= MAX_MICROS else self.clock

    def resumption_limit(self) -> int:
        """Return the time up to which paused splittable DoFns go on."""
        if self.resuming:
            return MAX_MICROS
        return self.clock if self.until is None else min(self.clock, self.until)
