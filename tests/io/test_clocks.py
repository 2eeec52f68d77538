"""The watermark of one of Spark's sources, tick by tick."""

from sparkbeam.streaming.clocks import SourceClock

SECOND = 1_000_000


def test_it_follows_the_newest_row_less_the_delay() -> None:
    clock = SourceClock(tag=1, delay=2 * SECOND, by_rows=True)
    assert clock.watermark(before=0, newest=10 * SECOND, now=99 * SECOND) == 8 * SECOND


def test_it_never_goes_back_and_stays_while_there_are_no_rows() -> None:
    clock = SourceClock(tag=1, delay=2 * SECOND, by_rows=True)
    assert clock.watermark(before=9 * SECOND, newest=10 * SECOND, now=99 * SECOND) == 9 * SECOND
    assert clock.watermark(before=9 * SECOND, newest=None, now=99 * SECOND) == 9 * SECOND


def test_without_a_time_column_it_follows_the_clock() -> None:
    clock = SourceClock(tag=1, delay=SECOND, by_rows=False)
    assert clock.watermark(before=0, newest=None, now=50 * SECOND) == 49 * SECOND


def test_it_is_not_ahead_of_a_timestamp_that_was_rounded_down() -> None:
    clock = SourceClock(tag=1, delay=0, by_rows=True)
    assert clock.watermark(before=0, newest=SECOND + 999, now=0) == SECOND
