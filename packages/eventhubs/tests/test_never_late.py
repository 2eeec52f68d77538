"""No event is late by its time of enqueuing, however events come in while a micro-batch is planned.

Times are milliseconds of one clock, which goes on with each event.
"""

from collections import defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st

from pyspark_eventhubs.events import Bounds
from pyspark_eventhubs.planning import Planner
from pyspark_eventhubs.source_options import SourceOptions
from sparkbeam.streaming.source_watermarks import (
    SourceClock,
    SourceObservation,
    SourceProgress,
    at_restart,
)

MILLI = 1000
PARTITIONS = ("0", "1", "2")
HUB = SourceClock(tag=1, by_columns=True, tells=True, tells_ends=True, idle=0)
OPTIONS = SourceOptions.parse({"connectionString": "Endpoint=sb://h/", "eventHub": "clicks"})

ASKED = st.lists(st.tuples(st.sampled_from(PARTITIONS), st.integers(1, 8)), max_size=3)
MICRO_BATCHES = st.lists(
    st.tuples(st.tuples(*[ASKED] * len(PARTITIONS)), st.integers(1, 9), st.booleans()), max_size=12
)


class Hub(Planner):
    """A planner that asks one partition after the other, while more events come in."""

    def __init__(self) -> None:
        super().__init__(OPTIONS)
        self.times: dict[str, list[int]] = defaultdict(list)
        self.arrivals: tuple[list[tuple[str, int]], ...] = ([],) * len(PARTITIONS)
        self._now = 0

    def bounds(self) -> dict[str, Bounds]:
        for partition, arriving in zip(PARTITIONS, self.arrivals, strict=True):
            for into, count in arriving:
                for _ in range(count):
                    self._now += 1
                    self.times[into].append(self._now)
            self._known[partition] = Bounds(0, len(self.times[partition]), 0)
        return self._known


@settings(max_examples=300)
@given(MICRO_BATCHES)
def test_whatever_comes_in_during_planning(micro_batches: list[tuple[object, int, bool]]) -> None:
    hub, marks, before = Hub(), SourceProgress(), 0
    start = dict.fromkeys(PARTITIONS, 0)
    look: SourceObservation | None = None
    nothing: tuple[list[tuple[str, int]], ...] = ([],) * len(PARTITIONS)
    left = [(nothing, 1000, False)] * 4
    for number, (arrivals, limit, restarts) in enumerate([*micro_batches, *left]):
        if restarts and look is not None:
            look = SourceObservation(look.time, look.seen, look.known, True, look.ended)
            marks = at_restart(marks)
        before, marks = marks.watermark // MILLI, HUB.after(marks, look, now=0)
        hub.arrivals = arrivals  # type: ignore[assignment]
        end = hub.up_to(start, limit)
        ended = hub.finished(start, end)
        seen = {}
        for partition in PARTITIONS:
            times = hub.times[partition][start[partition] : end[partition]]
            if times:
                assert times[0] >= before, "late"
                seen[partition] = times[-1] * MILLI
        look = SourceObservation(number, seen, PARTITIONS, False, tuple(ended))
        start = end
    newest = max((time for times in hub.times.values() for time in times), default=0)
    assert not newest or marks.watermark == newest * MILLI, "all are passed in the end"
