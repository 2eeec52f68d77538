"""The watermark of one of Spark's sources, tick by tick; times are in seconds."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from sparkbeam import ConfigurationError
from sparkbeam.streaming.source_watermarks import (
    MOST_PARTITIONS,
    SourceClock,
    SourceObservation,
    SourceProgress,
    at_restart,
    newest_seen,
)

SECOND = 1_000_000

ONE = SourceClock(tag=1)
KAFKA = SourceClock(tag=1, by_columns=True, tells=True)
NAMED = SourceClock(tag=1, by_columns=True)
FILES = SourceClock(tag=1, by_files=True)
HUB = SourceClock(tag=1, by_columns=True, tells=True, tells_ends=True, idle=0)


def look(
    time: int,
    known: Iterable[str] = (),
    *,
    is_first: bool = False,
    ended: Iterable[str] = (),
    **seen: int,
) -> SourceObservation:
    """A micro-batch with the latest second of each partition."""
    micros = {name: second * SECOND for name, second in seen.items()}
    return SourceObservation(time * SECOND, micros, tuple(known), is_first, tuple(ended))


def watermarks(
    clock: SourceClock, *looks: SourceObservation | None, marks: SourceProgress | None = None
) -> list[object]:
    """The watermark after each micro-batch; None as long as there is none."""
    found: list[object] = []
    marks = marks or SourceProgress()
    for each in looks:
        marks = clock.after(marks, each, now=0)
        found.append(marks.watermark / SECOND if marks.watermark > 0 else None)
    return found


def test_it_follows_the_newest_row_less_the_delay_and_never_goes_back() -> None:
    clock = replace(ONE, delay=2 * SECOND)
    rows = (
        SourceObservation(0, {"": 10 * SECOND}),
        SourceObservation(1, {}),
        SourceObservation(2, {"": 5 * SECOND}),
    )
    assert watermarks(clock, *rows) == [8, 8, 8]


def test_without_a_time_column_it_follows_the_clock() -> None:
    clock = SourceClock(tag=1, delay=SECOND, by_rows=False)
    assert clock.after(SourceProgress(), None, now=50 * SECOND).watermark == 49 * SECOND


def test_it_is_not_ahead_of_a_timestamp_that_was_rounded_down() -> None:
    marks = ONE.after(SourceProgress(), SourceObservation(0, {"": SECOND + 999}), now=0)
    assert marks.watermark == SECOND


def test_the_partition_that_is_furthest_behind_counts() -> None:
    looks = look(0, a=100, b=10), look(1, a=200), look(2, b=50), look(3, a=210, b=300)
    assert watermarks(NAMED, *looks) == [10, 10, 50, 210]


def test_what_nobody_has_told_of_a_micro_batch_changes_nothing() -> None:
    assert watermarks(NAMED, look(0, a=5), None, look(2, a=7)) == [5, 5, 7]


def test_a_partition_that_the_source_tells_holds_it_back_before_it_has_rows() -> None:
    looks = look(0, ["a", "b"], a=100), look(1, ["a", "b"], a=200), look(2, ["a", "b"], b=90)
    assert watermarks(KAFKA, *looks) == [None, None, 90]


def test_a_silent_partition_holds_it_back_for_the_idle_timeout() -> None:
    clock = replace(KAFKA, idle=3 * SECOND)
    parts = ["a", "b", "never"]
    looks = [look(second, parts, a=100 + second) for second in range(1, 6)]
    found = watermarks(clock, look(0, parts, a=100, b=50), *looks)
    assert found == [None, None, None, 50, 104, 105]


def test_an_idle_partition_that_has_rows_again_counts_again() -> None:
    clock = replace(KAFKA, idle=2 * SECOND)
    looks = [look(second, "ab", a=second) for second in range(1, 5)]
    found = watermarks(clock, look(0, "ab", a=0, b=0), *looks, look(5, "ab", a=9, b=5))
    assert found == [None, None, None, 3, 4, 5]


def test_when_all_are_idle_it_is_at_the_newest_row_of_all() -> None:
    for clock in (replace(KAFKA, idle=2 * SECOND), replace(NAMED, idle=2 * SECOND)):
        looks = [look(second) for second in range(1, 6)]
        assert watermarks(clock, look(0, a=7, b=3), *looks)[-1] == 7


def test_it_follows_the_clock_only_where_that_is_asked_for() -> None:
    for base in (ONE, KAFKA, NAMED, FILES):
        seen = {"first": 7 * SECOND, "last": 7 * SECOND} if base is FILES else {"": 7 * SECOND}
        looks = [SourceObservation(0, seen), *(look(second) for second in range(1, 100))]
        waits = replace(base, idle=10 * SECOND, delay=2 * SECOND)
        assert watermarks(waits, *looks)[-1] == 5
        follows = watermarks(replace(waits, follows=True), *looks)
        assert follows[10] == 5, "it has not been silent for long enough"
        assert follows[-1] == 97


def test_a_source_that_never_had_rows_follows_the_clock() -> None:
    clock = replace(ONE, idle=2 * SECOND, follows=True)
    assert watermarks(clock, *(look(second) for second in range(10, 14))) == [None, None, 12, 13]


def test_a_partition_with_nothing_left_is_passed_up_to_what_was_read_before() -> None:
    looks = [
        look(0, "ab", a=10, ended="b"),  # b may get what is older than the second 10.
        look(1, "ab", a=20, ended="b"),
        look(2, "ab", ended="ab"),
        look(3, "ab", a=30, b=25),
        look(4, "ab", a=40, ended="b"),
        look(5, "ab", a=50),  # b has something left, and nothing of it was read.
        look(6, "ab", ended="ab"),
    ]
    assert watermarks(HUB, *looks) == [None, 10, 20, 25, 30, 30, 50]


def test_a_partition_with_nothing_left_may_be_waited_for() -> None:
    clock = replace(HUB, idle=3 * SECOND)
    looks = [look(second, "ab", a=second, ended="b") for second in range(1, 7)]
    assert watermarks(clock, *looks) == [None, None, None, 3, 4, 5]
    never = replace(HUB, idle=None)
    assert watermarks(never, *looks) == [None] * 6


def test_what_had_nothing_left_before_a_restart_is_passed_after_it() -> None:
    marks = SourceProgress()
    for each in (look(0, "ab", a=10, ended="b"), look(1, "ab", a=20, ended="b")):
        marks = HUB.after(marks, each, now=0)
    looks = look(1, "ab", a=20, ended="b", is_first=True), look(3600, "ab", a=30, b=21)
    assert watermarks(HUB, *looks, marks=at_restart(marks)) == [20, 21]


def test_time_in_which_nobody_looked_is_no_silence() -> None:
    clock = replace(KAFKA, idle=5 * SECOND)
    marks = SourceProgress()
    for each in (look(0, a=10, b=5), look(1, a=20)):
        marks = clock.after(marks, each, now=0)
    marks = at_restart(marks)
    # The micro-batch of the last run, and then one that is planned an hour later.
    looks = look(1, a=20, is_first=True), look(3600, a=30), look(3601, b=6), look(3602, a=40)
    assert watermarks(clock, *looks, marks=marks) == [5, 5, 6, 6]


def test_partitions_that_only_rows_tell_may_turn_up_late_in_the_first_idle_timeout() -> None:
    clock = replace(NAMED, idle=3 * SECOND)
    looks = look(0, a=100), look(1, a=200), look(2, b=50), look(3, a=210), look(4, a=220)
    assert watermarks(clock, *looks) == [None, None, None, 50, 50]


def test_of_the_files_of_a_micro_batch_the_one_furthest_behind_counts_while_more_come() -> None:
    def files(*seconds: int) -> dict[str, int]:
        newest = {str(n): second * SECOND for n, second in enumerate(seconds)}
        return newest_seen([FILES], [(1, newest)])["1"]

    rows = [files(100, 40), files(110, 50), {}, files(120)]
    looks = [SourceObservation(number, seen) for number, seen in enumerate(rows)]
    assert watermarks(FILES, *looks) == [40, 50, 110, 120]


def test_what_tasks_have_seen_of_a_partition_is_put_together() -> None:
    seen = [(1, {"a": 1, "b": 5}), (2, {"": 9}), (1, {"a": 3})]
    assert newest_seen([NAMED], seen) == {"1": {"a": 3, "b": 5}, "2": {"": 9}}


def test_idle_partitions_are_forgotten_and_too_many_are_an_error() -> None:
    clock = replace(NAMED, idle=SECOND, label="Read")
    marks = SourceProgress()
    for second in range(3 * MOST_PARTITIONS):
        seen: dict[str, Any] = {f"p{second}": second}
        marks = clock.after(marks, look(second, **seen), now=0)
    assert len(marks.newest) < 5
    many = {f"p{number}": number for number in range(MOST_PARTITIONS + 1)}
    with pytest.raises(ConfigurationError, match="Step 'Read': more than 1000 partitions"):
        clock.after(SourceProgress(), SourceObservation(0, many), now=0)
