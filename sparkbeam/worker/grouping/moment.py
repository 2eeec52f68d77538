"""What a stage sees of time in a shard."""

from dataclasses import dataclass

from sparkbeam.wire.timestamps import MAX_MICROS, MIN_MICROS


@dataclass
class Moment:
    """Both watermarks of a stage and the clock, in microseconds since the epoch.

    It is the clock of Beam's trigger driver as well.

    Attributes:
        draining: splittable DoFns are to end.
    """

    input_watermark: int = MIN_MICROS
    output_watermark: int = MIN_MICROS
    clock: int = 0
    draining: bool = False

    def time(self) -> float:
        """Processing time in seconds."""
        return self.clock / 1e6

    def processing_limit(self) -> int:
        """Up to when timers in processing time fire.

        Where no more input can come, there is nothing to wait for.
        """
        return MAX_MICROS if self.input_watermark >= MAX_MICROS else self.clock
