"""The watermarks of Spark's sources."""

from dataclasses import dataclass

from sparkbeam.plan.model import Plan, Source
from sparkbeam.plan.sparkio import READ_URN, ReadSpec

_MILLISECOND = 1000


def spark_sources(plan: Plan) -> list[Source]:
    """The sources of a plan that Spark reads."""
    return [source for source in plan.sources if source.urn == READ_URN]


@dataclass(frozen=True)
class SourceClock:
    """How the watermark of one of Spark's sources goes on.

    Attributes:
        tag: of the source.
        delay: how far it stays behind, in microseconds.
        by_rows: it follows the timestamps of the rows, or else the clock.
    """

    tag: int
    delay: int
    by_rows: bool

    @classmethod
    def of(cls, source: Source) -> "SourceClock":
        """That of a source."""
        spec = ReadSpec.unpack(source.payload)
        ((_, tag),) = source.outputs
        return cls(tag, spec.delay, spec.timestamp_column is not None)

    def watermark(self, before: int, newest: int | None, now: int) -> int:
        """The watermark of a tick, in microseconds.

        Args:
            before: that of the tick before.
            newest: the latest timestamp of the micro-batch before; None if it had no rows.
            now: the clock.
        """
        reached = newest if self.by_rows else now
        if reached is None:
            return before
        # Timestamps travel in milliseconds, rounded down.
        return max(before, (reached - self.delay) // _MILLISECOND * _MILLISECOND)
