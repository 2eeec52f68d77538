"""``managed.Read`` of changes of Iceberg's tables, with Iceberg itself."""

from typing import Any

import iceberg_changes_program
import pytest
import table_programs

from sparkbeam_tables.iceberg_snapshots import Snapshot, SnapshotRange

LONG = pytest.mark.long("a minute together; test_iceberg.py follows changes too")

ALL = [[1, 10], [2, 20], [3, 30]]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The findings of the program."""
    folder = tmp_path_factory.mktemp("iceberg")
    return table_programs.findings(["iceberg"], iceberg_changes_program.__file__, folder)


@LONG
def test_a_range_of_snapshots_is_read_at_the_times_of_their_commits(found: dict[str, Any]) -> None:
    assert found["all"] == ALL
    assert found["second"] == ALL[2:]
    assert found["until"] == ALL[1:2]
    assert found["latest"] == [[3]]
    assert found["future"] == []
    assert found["timed"] == [[1, 0], [2, 0], [3, 0]]
    assert found["yaml"] == [{"id": 3}]


@LONG
def test_a_stream_goes_on_with_the_rows_that_are_appended(found: dict[str, Any]) -> None:
    assert found["stream_old"] == [[1, 10], [3, 30], [4, 40]]
    assert found["stream_new"] == [[3, 30], [4, 40]]
    assert found["stream_since"] == [[4, 40]]
    assert found["bounded"] is False


@LONG
def test_rows_tell_the_kind_of_their_change_where_some_are_deleted(found: dict[str, Any]) -> None:
    assert sorted(found["kinds"]) == [
        [3, 30, "DELETE"],
        [3, 30, "INSERT"],
        [3, 31, "INSERT"],
        [4, 40, "DELETE"],
        [4, 40, "INSERT"],
    ]


KNOWN = [Snapshot(10 * n, 10 * (n - 1) or None, 1000 * n, "append") for n in (1, 2, 3)]


@pytest.mark.parametrize(
    ("wanted", "ids"),
    [
        (SnapshotRange(), [10, 20, 30]),
        (SnapshotRange(first=20), [20, 30]),
        (SnapshotRange(first=20, last=20), [20]),
        (SnapshotRange(first=20, until=2000), [20]),
        (SnapshotRange(since=1001, last=20), [20]),
        (SnapshotRange(since=1001, until=2999), [20]),
        (SnapshotRange(since=2001, until=2999), []),
        (SnapshotRange(since=3001), []),
        (SnapshotRange(since=3001, until=9000), []),
        (SnapshotRange(latest=True), [30]),
        (SnapshotRange(latest=True, last=30), [30]),
    ],
)
def test_a_range_has_both_ends(wanted: SnapshotRange, ids: list[int]) -> None:
    assert [each.id for each in wanted.within(KNOWN)] == ids


def test_a_table_without_snapshots_has_no_changes() -> None:
    assert [*SnapshotRange(until=1).within([])] == []
