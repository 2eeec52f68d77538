"""``managed.Read`` of changes of Iceberg's tables, with Iceberg itself."""

from typing import Any

import iceberg_changes_program
import pytest
import table_programs

pytestmark = pytest.mark.long("a minute together; test_iceberg.py follows changes too")

ALL = [[1, 10], [2, 20], [3, 30]]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The findings of the program."""
    folder = tmp_path_factory.mktemp("iceberg")
    return table_programs.findings(["iceberg"], iceberg_changes_program.__file__, folder)


def test_a_range_of_snapshots_is_read_at_the_times_of_their_commits(found: dict[str, Any]) -> None:
    assert found["all"] == ALL
    assert found["second"] == ALL[2:]
    assert found["until"] == ALL[1:2]
    assert found["latest"] == [[3]]
    assert found["future"] == []
    assert found["timed"] == [[1, 0], [2, 0], [3, 0]]
    assert found["yaml"] == [{"id": 3}]


def test_a_stream_goes_on_with_the_rows_that_are_appended(found: dict[str, Any]) -> None:
    assert found["stream_old"] == [[1, 10], [3, 30], [4, 40]]
    assert found["stream_new"] == [[3, 30], [4, 40]]
    assert found["stream_since"] == [[4, 40]]
    assert found["bounded"] is False


def test_rows_tell_the_kind_of_their_change_where_some_are_deleted(found: dict[str, Any]) -> None:
    assert sorted(found["kinds"]) == [
        [3, 30, "DELETE"],
        [3, 30, "INSERT"],
        [3, 31, "INSERT"],
        [4, 40, "DELETE"],
        [4, 40, "INSERT"],
    ]
    assert "name '_change_type' in keep" in found["hidden"]


def test_an_argument_without_a_meaning_is_named(found: dict[str, Any]) -> None:
    assert "from_snapshot=5 is none of the 5 snapshots" in found["unknown"]
    assert "to_snapshot is the end of a read" in found["end"]
    assert "keep has '_change_type'" in found["kind"]
