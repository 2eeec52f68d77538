"""A clock that is set, back or forth, while a query runs."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.utils.timestamp import Duration
from in_process import MachineClock, Spark, streaming_pipeline
from positions import Positions

from sparkbeam.streaming.clock import Clock
from sparkbeam.streaming.spark_sources import TickTime

HOUR = 3600


class Waiting(beam.DoFn):
    """Gives a number, and waits two seconds for the next one."""

    @beam.DoFn.unbounded_per_element()
    def process(
        self, element: int, tracker: Any = beam.DoFn.RestrictionParam(Positions())
    ) -> Iterator[int]:
        number = tracker.current_restriction().start
        if tracker.try_claim(number):
            yield number
            tracker.defer_remainder(Duration(2))


@pytest.mark.parametrize("jump", [-HOUR, -1000 * HOUR, HOUR])
def test_a_query_goes_on_when_the_clock_is_set(
    jump: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    MachineClock(monkeypatch, {12: jump, 25: -jump, 35: -5})
    spark = Spark()
    with streaming_pipeline(spark, tmp_path) as p:
        numbers = p | beam.Create([12]) | beam.ParDo(Waiting())
        assert_that(numbers, equal_to(list(range(12))))
    (checkpoint,) = spark.checkpoints.values()
    times = [json.loads(offset)["time"] for offset in checkpoint.offsets]
    assert times == sorted(times)
    told = [r for r in caplog.records if "clock went back" in r.getMessage()]
    assert len(told) == 2, "once for each jump back"


def test_a_clock_goes_on_from_where_an_earlier_run_was(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    machine = MachineClock(monkeypatch, {})
    last = machine() + HOUR * 1_000_000
    clock = Clock()
    times = [clock.after(last) for _ in range(5)]
    steps = {after - before for before, after in itertools.pairwise(times)}
    assert times[0] == last
    assert steps == {500_000}
    assert len(caplog.records) == 1


def test_a_small_step_back_is_no_word_worth(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    machine = MachineClock(monkeypatch, {})
    last = machine() + 900_000
    assert Clock().after(last) == last
    assert not caplog.records


def test_rows_without_a_time_have_that_of_the_tick(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    tick = {"number": 4, "time": 1_800_000_000_000_000, "event": 0, "watermarks": {}}
    (tmp_path / "offsets/3").write_text(f"v1\n{{}}\n{json.dumps(tick)}\n5")
    time = TickTime(str(tmp_path))
    assert time(3) == 1_800_000_000_000_000
    assert time(4) is None
