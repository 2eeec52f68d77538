"""``managed.Read`` and ``managed.Write`` of Iceberg's tables, with Iceberg itself."""

from typing import Any

import iceberg_program
import pytest
import table_programs

LONG = pytest.mark.long("a minute together; the others read and write tables too")


pytestmark = pytest.mark.xdist_group("managed_tables")


@pytest.fixture
def found(managed_tables: Any) -> Any:
    """The findings of the program about what is used most."""
    return managed_tables["iceberg"]


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The other findings."""
    folder = tmp_path_factory.mktemp("iceberg")
    return table_programs.findings(["iceberg"], iceberg_program.__file__, folder, "others")


def test_columns_and_rows_are_chosen_where_they_are_read(found: dict[str, Any]) -> None:
    assert found["some"] == [
        ["1", "2020-01-02", "1.250000000000000000", "['a', '1']"],
        ["3", "2020-01-04", "1.250000000000000000", "['a', '3']"],
    ]


def test_a_missing_table_is_created_with_its_partitions(found: dict[str, Any]) -> None:
    assert found["partitions"] == [["2"]]


@LONG
def test_a_field_chooses_the_table_of_a_row(others: dict[str, Any]) -> None:
    assert others["one"] == [["1", "it'em 1"]]


@LONG
def test_changes_are_merged_once_by_their_order(others: dict[str, Any]) -> None:
    assert others["merged"] == [["3", "e"], ["5", "c"]]
    assert others["merges"] == [["3", "tests"]]


@LONG
def test_a_table_that_is_created_has_the_sort_order(others: dict[str, Any]) -> None:
    assert others["order"] == "item DESC NULLS LAST, bucket(4, id) ASC NULLS FIRST"


@LONG
def test_an_argument_without_a_meaning_is_named(others: dict[str, Any]) -> None:
    assert "sequence_number_column is for mode='merge-on-read'" in others["mode"]
    assert "error_handling has no counterpart" in others["error_handling"]
    assert "change_type_map='ADD'" in others["kinds"]


@LONG
def test_yaml_reads_a_table_and_writes_one(others: dict[str, Any]) -> None:
    assert others["copied"] == [["it'em 3", "3"]]


def test_a_micro_batch_that_runs_again_makes_no_second_snapshot(found: dict[str, Any]) -> None:
    assert found["stream"] == [["0"], ["1"], ["2"], ["3"]]
    assert found["snapshots"] == [["4"]]


def test_a_stream_follows_the_rows_that_are_appended(found: dict[str, Any]) -> None:
    assert found["changes"] == [0, 1, 2, 3]


def test_the_program_of_the_page_runs(found: dict[str, Any]) -> None:
    assert found["page"] == [["Bonn", "3"]]


@LONG
def test_values_that_a_table_cannot_have_are_named(others: dict[str, Any]) -> None:
    assert "column 'id' of the schema is of type bigint and not nullable" in others["null"]
    assert "'id' is of type double, and the table 'shop.of_1' has bigint" in others["cut"]
