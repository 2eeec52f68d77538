"""``managed.Read`` and ``managed.Write`` of Iceberg's tables, with Iceberg itself."""

from typing import Any

import iceberg_program
import pytest
import table_programs

LONG = pytest.mark.long("a minute together; the others read and write tables too")


pytestmark = [pytest.mark.xdist_group("managed_tables"), pytest.mark.timeout(900)]


@pytest.fixture
def found(managed_tables: Any) -> Any:
    """The findings of the program about what is used most."""
    return managed_tables["iceberg"]


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The other findings."""
    folder = tmp_path_factory.mktemp("iceberg")
    return table_programs.findings(["iceberg"], iceberg_program.__file__, folder, "others")


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Results with odd names of tables, and with decimals."""
    folder = tmp_path_factory.mktemp("iceberg")
    return table_programs.findings(["iceberg"], iceberg_program.__file__, folder, "names")


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
def test_fields_of_any_type_are_in_the_name_of_a_table_as_beam_has_them(
    names: dict[str, Any],
) -> None:
    """A field that is null is empty, and one need not be written."""
    of_text = f"of_{iceberg_program.VISITS[2].city}"
    of_fields = ["at_7_true_2020-01-02", "at__false_", "at___"]
    assert sorted(names["tables"]) == sorted([*of_fields, "of_", of_text, "only_1"])


@LONG
def test_decimals_are_exact_at_any_depth(names: dict[str, Any]) -> None:
    share = "-1.000000000000000001"
    assert names["of null"] == [
        ["1", share, f"[Decimal('{share}')]", share],
        ["2", "None", "[]", "None"],
    ]
    assert names["of text"] == [["3", "10000000000000000000.000000000000000000"]]
    assert names["only"] == [["7", share]]


@LONG
def test_changes_are_merged_once_by_their_order(others: dict[str, Any]) -> None:
    assert others["merged"] == [["3", "e"], ["5", "c"]]
    assert others["merges"] == [["3", "tests"]]


@LONG
def test_a_table_that_is_created_has_the_sort_order(others: dict[str, Any]) -> None:
    assert others["order"] == "item DESC NULLS LAST, bucket(4, id) ASC NULLS FIRST"


@LONG
def test_yaml_reads_a_table_and_writes_one(others: dict[str, Any]) -> None:
    assert others["copied"] == [["it'em 3", "3"]]


def test_a_micro_batch_that_runs_again_makes_no_second_snapshot(found: dict[str, Any]) -> None:
    assert found["stream"] == [["0"], ["1"], ["2"], ["3"]]
    assert found["snapshots"] == [["4"]]


def test_a_stream_follows_the_rows_that_are_appended(found: dict[str, Any]) -> None:
    assert found["changes"] == [0, 1, 2, 3]


@LONG
def test_the_program_of_the_page_runs(others: dict[str, Any]) -> None:
    assert others["page"] == [["Bonn", "3"]]
