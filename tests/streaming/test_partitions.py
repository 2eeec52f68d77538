"""Rows of a source with partitions in a streaming query: none is lost, and windows end."""

from pathlib import Path

import pytest
from partitioned import HOUR, PartitionedRun, Sums


@pytest.fixture
def sums(tmp_path: Path) -> Sums:
    return Sums(tmp_path)


def test_a_partition_an_hour_ahead_makes_no_row_of_another_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sums: Sums
) -> None:
    run = PartitionedRun(tmp_path, monkeypatch, partitions=lambda number: 2)
    behind = [range(10 * n, 10 * n + 10) for n in range(8)]
    batches = [{0: [HOUR + s for s in part], 1: part} for part in behind]
    run.run(batches, until=11, build=sums)
    assert sums.total() == 70, "all but those of the last window, which is still open"


def test_a_partition_whose_first_rows_come_late_holds_the_windows_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sums: Sums
) -> None:
    """As after a restart from the earliest offset, with a producer that lags."""
    run = PartitionedRun(tmp_path, monkeypatch, partitions=lambda number: 2)
    ahead = [{0: range(100 * n, 100 * n + 100)} for n in range(4)]
    run.run([*ahead, {1: range(50)}, {1: range(50, 500)}, {0: range(400, 500)}], 10, sums)
    assert sums.total() == 980, "all up to the second 489"


def test_a_new_partition_is_not_late_where_others_have_not_passed_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sums: Sums
) -> None:
    run = PartitionedRun(tmp_path, monkeypatch, partitions=lambda number: 1 if number < 3 else 2)
    first = [{0: range(20 * n, 20 * n + 20)} for n in range(6)]
    first[4] = first[4] | {1: range(55, 60)}
    run.run([*first, {1: range(60, 120)}], 10, sums)
    assert sums.total() == 110 + 55, "all up to second 109"


def test_an_outage_makes_nothing_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sums: Sums
) -> None:
    run = PartitionedRun(tmp_path, monkeypatch)
    more = {"partition_column": "topic", "format": "rows", "idle_timeout": 30}
    before = [{0: [n], 1: [n]} for n in range(40)]
    run.run(before, 40, sums, **more)
    run.pass_time(HOUR)
    backlog = [{0: range(40, 400)}, {1: range(40, 200)}, {1: range(200, 400)}]
    run.run([*before, *backlog], 80, sums, **more)
    assert sums.total() == 800 - 20


def test_windows_of_a_silent_topic_end_where_it_follows_the_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sums: Sums
) -> None:
    run = PartitionedRun(tmp_path, monkeypatch, partitions=lambda number: 2)
    more = {"idle_timeout": 5, "follow_clock_when_idle": True, "watermark_delay": 2}
    run.run([{0: [3, 4], 1: [4, 5]}], 8, sums, **more)
    assert sums.found() == [], "the clock has not been silent for long enough"
    run.run([{0: [3, 4], 1: [4, 5]}], 20, sums, **more)
    assert [count for _, count in sums.found()] == [4]


def test_a_silent_partition_stops_others_for_as_long_as_the_user_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sums: Sums
) -> None:
    batches = [{0: [3 * n], 1: [1] if not n else []} for n in range(20)]
    run = PartitionedRun(tmp_path, monkeypatch, partitions=lambda number: 3)
    run.run(batches, 5, sums, idle_timeout=8)
    assert sums.found() == []
    run.run(batches, 20, sums, idle_timeout=8)
    assert sums.total() > 10


def test_a_source_of_one_partition_follows_its_newest_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sums: Sums
) -> None:
    run = PartitionedRun(tmp_path, monkeypatch)
    run.run([{0: [1]}, {0: [15]}, {0: [12]}, {}], 5, sums, format="rows")
    assert run.watermarks() == [run.watermarks()[0], 1, 15, 15, 15]
    assert [count for _, count in sums.found()] == [1]


@pytest.mark.part(2)
@pytest.mark.parametrize("what", ["planned", "operator 0", "operator 1", "sink", "committed"])
def test_watermarks_are_those_of_a_run_without_crashes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sums: Sums, what: str
) -> None:
    run = PartitionedRun(tmp_path, monkeypatch, partitions=lambda number: 2)
    batches = [{0: [5 * n + 60], 1: [5 * n]} for n in range(9)]
    for number in (2, 5, 6):
        run.crash(batches, (number, what), sums)
    run.run(batches, 9, sums)
    assert run.watermarks()[1:] == [5 * n for n in range(8)]
