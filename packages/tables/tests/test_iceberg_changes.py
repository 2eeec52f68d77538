"""``managed.Read`` of changes of Iceberg's tables, with Iceberg itself."""

from typing import Any

import iceberg_changes_program
import pytest
import table_programs

from sparkbeam.errors import ConfigurationError
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
    assert "add '_change_type' to keep" in found["hidden"]


@LONG
def test_an_argument_without_a_meaning_is_named(found: dict[str, Any]) -> None:
    assert "from_snapshot=5 is not one of the 5 unexpired snapshots" in found["unknown"]
    assert "to_snapshot ends a read" in found["end"]
    assert "keep has '_change_type'" in found["kind"]


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


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (SnapshotRange(first=30, last=10), "begins with from_snapshot=30 and ends with .* 10, at"),
        (SnapshotRange(first=30, until=2999), "begins with from_snapshot=30 and ends with .* 20"),
        (SnapshotRange(since=2001, last=20), "at from_timestamp=2001 and ends with .* 20, at the"),
        (SnapshotRange(since=9000, last=30), "at from_timestamp=9000 and ends with .* 30, at the"),
        (SnapshotRange(latest=True, last=20), "begins with the current snapshot, 30 .*latest"),
        (SnapshotRange(until=999), "to_timestamp=999 is before the oldest snapshot, 10, at the"),
        (SnapshotRange(first=11), "from_snapshot=11 is not one of the 3 unexpired"),
        (SnapshotRange(last=-1), "to_snapshot=-1 is not one of the 3 unexpired"),
    ],
)
def test_a_range_that_ends_before_it_begins_is_an_error(
    wanted: SnapshotRange, message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        wanted.within(KNOWN)


def test_a_table_without_snapshots_has_no_changes() -> None:
    assert [*SnapshotRange(until=1).within([])] == []
