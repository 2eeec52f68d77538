"""Which columns Spark reads: those that some step looks at."""

import importlib
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import apache_beam as beam
import plans
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.io.kafka import ReadFromKafka
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import FixedWindows, NonMergingWindowFn, TimestampedValue
from in_process_batch import BatchRunner
from noting import found, note
from pyspark.sql import types as st

from sparkbeam import SparkRunner
from sparkbeam.explain import describe
from sparkbeam.io import ReadFromSpark
from sparkbeam.plan.model import Plan

INNER = st.StructType([st.StructField("x", st.DoubleType()), st.StructField("y", st.LongType())])
SCHEMA = st.StructType(
    [
        st.StructField("id", st.LongType()),
        st.StructField("name", st.StringType()),
        st.StructField("at", st.TimestampType()),
        st.StructField("inner", INNER),
        st.StructField("set", st.LongType(), False),
    ]
)


def planned(
    build: Callable[[Any], Any], *options: str, format: str = "parquet", **read: Any
) -> Plan:
    source = ReadFromSpark(format, {}, SCHEMA, timestamp_column="at", **read)
    return plans.planned(lambda p: build(p | source), *options)


def read(plan: Plan) -> list[str]:
    (spec,) = plan.spark_reads.values()
    return list(spec.read)


def two_steps(rows: Any) -> Any:
    few = rows | beam.Filter(lambda row: row.id > 3)
    return few | beam.WindowInto(FixedWindows(3)) | beam.Map(lambda row: (row.name, 1))


def two_readers(rows: Any) -> None:
    _ = rows | "names" >> beam.Map(lambda row: row.name)
    _ = rows | "xs" >> beam.Map(lambda row: row.inner.x if row.id else 0.0)


ALL = ["id", "name", "at", "inner", "set"]
USE = "use" >> beam.Map(print)


class Pair(NamedTuple):
    number: int
    text: str


def unused_fields(rows: Any) -> Any:
    pairs = rows | beam.Map(lambda row: Pair(row.id, row.name)).with_output_types(Pair)
    return pairs | "texts" >> beam.Map(lambda pair: pair.text) | USE


def what_may_fail(rows: Any) -> Any:
    pairs = rows | beam.Map(lambda row: (row.id + 1, row.name))
    return pairs | "names" >> beam.Map(lambda pair: pair[1]) | USE


def one_of_two(rows: Any) -> Any:
    pairs = rows | beam.Map(lambda row: (row.id, row.set) if row.inner else (row.set, row.id))
    return pairs | "first" >> beam.Map(lambda pair: pair[0]) | USE


def stamped(rows: Any) -> Any:
    times = rows | beam.Map(lambda row: TimestampedValue((row.id, row.name), row.set))
    return times | "ids" >> beam.Map(lambda pair: pair[0]) | USE


def counted(rows: Any) -> Any:
    rows = rows | beam.WindowInto(FixedWindows(3))
    return rows | beam.Map(lambda row: (row.id, row)) | beam.combiners.Count.PerKey()


def added_up(rows: Any) -> Any:
    rows = rows | beam.WindowInto(FixedWindows(3))
    return rows | beam.Map(lambda row: (row.id, row.set)) | beam.CombinePerKey(sum)


class ByElement(NonMergingWindowFn):
    def assign(self, context: Any) -> list[Any]:
        return FixedWindows(1 + context.element.set).assign(context)

    def get_window_coder(self) -> Any:
        return FixedWindows(1).get_window_coder()


def windowed(rows: Any) -> Any:
    return rows | beam.WindowInto(ByElement()) | beam.Map(lambda row: row.id) | USE


def side_by_side(rows: Any) -> Any:
    pairs = rows | beam.Map(lambda row: (row.id, row.name))
    return rows | "r" >> beam.Filter(lambda row: row.set) | USE, pairs | "p" >> beam.Map(len)


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda rows: rows | beam.Map(lambda row: row.id) | USE, ["id"]),
        (lambda rows: rows | beam.Map(lambda row: row.id), []),
        (lambda rows: rows | beam.Map(lambda row: (row.at, row.set)) | USE, ["at", "set"]),
        (lambda rows: rows | beam.Map(lambda row: row[1]) | USE, ["name"]),
        (lambda rows: rows | beam.Map(lambda row: 1) | USE, []),
        (lambda rows: two_steps(rows) | USE, ["id", "name"]),
        (two_readers, ["id", "inner"]),
        (lambda rows: rows | beam.Map(lambda row: row), []),
        (lambda rows: rows | beam.Map(lambda row: row) | beam.Reshuffle() | USE, ALL),
        (lambda rows: rows | beam.Map(lambda row: (row.id, row)) | USE, ALL),
        (lambda rows: rows | beam.Filter(lambda row: row.id > 3), ["id"]),
        (lambda rows: rows | beam.Filter(lambda row: row.id > 3) | USE, ALL),
        (lambda rows: rows | beam.Map(lambda row: re.match("a", row.name)), ALL),
        (lambda rows: rows | beam.Map(lambda row: row == (1, "a", None, None, 2)), ALL),
        (lambda rows: rows | beam.Map(lambda row: row if row.id else None) | USE, ALL),
        (lambda rows: rows | beam.Map(lambda row, side: row.id, 3) | USE, ["id"]),
        (windowed, ALL),
        (unused_fields, ["name"]),
        (what_may_fail, ["id", "name"]),
        (one_of_two, ["id", "inner", "set"]),
        (stamped, ["id", "set"]),
        (counted, ["id"]),
        (added_up, ["id", "set"]),
        (side_by_side, ALL),
    ],
)
@pytest.mark.parametrize("options", [[], ["--streaming"]])
def test_columns_that_no_step_looks_at_are_not_read(
    build: Callable[[Any], Any], expected: list[str], options: list[str]
) -> None:
    assert read(planned(build, *options)) == expected


MODULE = """
from math import floor as down

FLAG, KEY, RATE, NONE = True, 0, 2.0, None


class Settings:
    FLAG = True

    def __init__(self):
        self.flag = True

    def pick(self, row):
        return row.id if self.FLAG else row.set


def pick(row):
    return row.id if FLAG else row.set


def at_key(row):
    return row[KEY]


def rated(row):
    return row.id * RATE + len((0, 1))


def without(row):
    return row.id if NONE is None else row.set


def of_class(row):
    return row.id if Settings.FLAG else row.set


def of_settings(row):
    return row.id if SETTINGS.flag else row.set


def default(row, flag=FLAG):
    return row.id if flag else row.set


def aliased(row):
    return PICK(row)


def rounded(row):
    return down(row.id)


SETTINGS, PICK = Settings(), pick
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    (tmp_path / "picking.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "picking", raising=False)
    return importlib.import_module("picking")


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda module: module.pick, ["id", "set"]),
        (lambda module: lambda row: module.pick(row), ["id", "set"]),
        (lambda module: lambda row: row.id if module.FLAG else row.set, ["id", "set"]),
        (lambda module: module.at_key, ALL),
        (lambda module: module.rated, ["id"]),
        (lambda module: module.without, ALL),
        (lambda module: module.of_class, ["id", "set"]),
        (lambda module: module.of_settings, ALL),
        (lambda module: module.Settings().pick, ["id", "set"]),
        (lambda module: lambda row: module.default(row), ["id", "set"]),
        (lambda module: module.aliased, ALL),
        (lambda module: module.rounded, ALL),
    ],
)
def test_what_workers_may_find_otherwise_in_their_modules_is_not_relied_on(
    module: ModuleType, function: Callable[[ModuleType], Any], expected: list[str]
) -> None:
    picked = function(module)
    assert read(planned(lambda rows: rows | beam.Map(picked) | USE)) == expected


def behind_reshuffle(rows: Any) -> Any:
    pairs = rows | "pairs" >> beam.Map(lambda row: (row.id, row.name))
    return pairs | beam.Reshuffle() | beam.Map(lambda pair: pair[0]) | USE


def flattened(rows: Any) -> Any:
    pairs = rows | "pairs" >> beam.Map(lambda row: (row.id, row.name))
    some = rows | "some" >> beam.Filter(lambda row: row.set > 1)
    others = some | "others" >> beam.Map(lambda row: (row.set, row.name))
    both = (pairs, others) | beam.Flatten() | beam.Reshuffle()
    return both | beam.Map(lambda pair: pair[0]) | USE


def beside_a_side_input(rows: Any) -> Any:
    rows = rows | "same" >> beam.Map(lambda row: row)
    use = "sides" >> beam.Map(lambda one, side: len(side), beam.pvalue.AsList(rows))
    return behind_reshuffle(rows), rows | "one" >> beam.Map(lambda row: 1) | use


def grouped(rows: Any) -> Any:
    return rows | beam.Map(lambda row: (row.id, row.name)) | beam.GroupByKey() | USE


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (behind_reshuffle, ["id"]),
        (flattened, ["id", "set"]),
        (grouped, ["id", "name"]),
    ],
)
def test_what_other_stages_look_at_is_read(
    build: Callable[[Any], Any], expected: list[str]
) -> None:
    assert read(planned(build)) == expected


def test_in_streaming_all_is_handed_on() -> None:
    assert read(planned(behind_reshuffle, "--streaming")) == ["id", "name"]


def test_side_inputs_are_whole() -> None:
    assert read(planned(beside_a_side_input)) == ALL


def test_all_columns_are_read_where_functions_are_called() -> None:
    assert read(planned(lambda rows: rows | beam.Map(lambda row: row.id), "--columns=off")) == ALL


def test_all_columns_are_read_where_they_may_make_a_row_malformed() -> None:
    plan = planned(lambda rows: rows | beam.Map(lambda row: row.id), format="csv")
    assert read(plan) == ALL


def test_explain_tells_how_many_columns_are_read() -> None:
    plan = planned(lambda rows: rows | "ids" >> beam.Map(lambda row: (row.id, row.at)) | USE)
    assert "(2 of 5 columns)" in describe.stages(plan)


def test_a_block_that_goes_element_by_element_has_what_its_function_looks_at(
    spark: Any, tmp_path: Path
) -> None:
    path = str(tmp_path / "rows")
    rows = [(1, "a", 2**62), (2, "b", 5), (3, None, None)]
    spark.createDataFrame(rows, "id long, name string, number long").write.parquet(path)
    with beam.Pipeline(SparkRunner(spark)) as p:
        numbers = (
            p
            | ReadFromSpark("parquet", {"path": path})
            | beam.Filter(lambda row: row.number is not None)
            | beam.Map(lambda row: (row.id, row.number * 4))
        )
        assert_that(numbers, equal_to([(1, 2**64), (2, 20)]))


def test_parquet_is_read_of_those_columns_alone(tmp_path: Path) -> None:
    write_files(tmp_path, a=NUMBERS, b=NUMBERS)
    plan = files_planned(tmp_path, lambda rows: rows | beam.Map(lambda row: row["id"]))
    assert "ReadFromParquet: 1 of 3 columns" in describe.stages(plan)


NUMBERS = pa.table({"id": [1, 2], "name": ["a", "b"], "number": [2**62, 5]})


def write_files(folder: Path, **tables: pa.Table) -> None:
    for name, table in tables.items():
        pq.write_table(table, folder / f"{name}.parquet", row_group_size=1)


def files_planned(folder: Path, build: Callable[[Any], Any], **read: Any) -> Plan:
    source = beam.io.ReadFromParquet(f"{folder}/*.parquet", **read)
    return plans.planned(lambda p: build(p | source))


@pytest.mark.parametrize(
    ("build", "read"),
    [
        (lambda rows: rows | beam.Map(lambda row: (row["id"], "name" in row, row)) | USE, {}),
        (lambda rows: rows | beam.Map(lambda row: list(row.values())), {}),
        (lambda rows: rows | beam.Map(lambda row: row["id"]) | USE, {"columns": ["id"]}),
        (lambda rows: rows | beam.Reshuffle() | USE, {}),
    ],
)
def test_parquet_is_read_as_it_was_where_rows_are_needed_whole(
    build: Callable[[Any], Any], read: dict[str, Any], tmp_path: Path
) -> None:
    write_files(tmp_path, a=NUMBERS)
    assert " of 3 columns" not in describe.stages(files_planned(tmp_path, build, **read))


def test_of_a_file_with_other_columns_all_are_read(tmp_path: Path) -> None:
    other = NUMBERS.append_column("discount", pa.array([1, 2]))
    write_files(tmp_path, a=NUMBERS, b=other, c=NUMBERS.select(["number", "id"]))
    assert results_of(tmp_path, lambda row: (row["id"], row.get("discount", 0), "name" in row)) == [
        (1, 0, False),
        (1, 0, True),
        (1, 1, True),
        (2, 0, False),
        (2, 0, True),
        (2, 2, True),
    ]


def test_what_goes_element_by_element_has_the_columns_that_are_read(tmp_path: Path) -> None:
    write_files(tmp_path, a=NUMBERS)
    assert results_of(tmp_path, lambda row: row["number"] * 4) == [20, 2**64]


@pytest.mark.parametrize("columns", [["name", "id", "number"], ["id", "number"]])
def test_columns_that_the_user_has_chosen(columns: list[str], tmp_path: Path) -> None:
    write_files(tmp_path, a=NUMBERS)
    found = results_of(tmp_path, lambda row: (row["id"], row.get("name")), columns=columns)
    assert found == ([(1, "a"), (2, "b")] if "name" in columns else [(1, None), (2, None)])


def test_no_column_at_all(tmp_path: Path) -> None:
    write_files(tmp_path, a=NUMBERS)
    assert results_of(tmp_path, lambda row: 1) == [1, 1]


def results_of(folder: Path, function: Callable[[Any], Any], **read: Any) -> list[Any]:
    found.clear()
    p = beam.Pipeline(BatchRunner())
    rows = p | beam.io.ReadFromParquet(f"{folder}/*.parquet", **read)
    _ = rows | beam.Map(function) | "found" >> beam.Map(note)
    p.run().wait_until_finish()
    return sorted(value for value, *_ in found)


def test_rows_are_counted_where_no_column_is_read(spark: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "rows")
    spark.createDataFrame([(1, "a"), (2, None), (3, "c")], "id long, name string").write.parquet(
        path
    )
    with beam.Pipeline(SparkRunner(spark)) as p:
        ones = p | ReadFromSpark("parquet", {"path": path}) | beam.Map(lambda row: 1)
        assert_that(ones | beam.CombineGlobally(sum), equal_to([3]))


def test_records_with_fields_that_nobody_looks_at_travel_between_stages(
    spark: Any, tmp_path: Path
) -> None:
    path = str(tmp_path / "rows")
    rows = [(number, f"text {number}") for number in range(100)]
    spark.createDataFrame(rows, "id long, name string").write.parquet(path)
    with beam.Pipeline(SparkRunner(spark)) as p:
        read = p | ReadFromSpark("parquet", {"path": path})
        few = read | "few" >> beam.Filter(lambda row: row.id < 3)
        pairs = [
            one | label >> beam.Map(lambda row: Pair(row.id, row.name)).with_output_types(Pair)
            for label, one in (("all pairs", read), ("few pairs", few))
        ]
        texts = pairs | beam.Flatten() | beam.Reshuffle() | beam.Map(lambda pair: pair.text)
        assert_that(texts, equal_to([name for _, name in rows + rows[:3]]))


@pytest.mark.parametrize(
    ("deserializer", "columns"),
    [("ByteArrayDeserializer", ["key"]), ("LongDeserializer", ["key", "value"])],
)
def test_values_of_records_that_nobody_reads_are_left_out_unless_they_may_be_malformed(
    deserializer: str, columns: list[str]
) -> None:
    records = ReadFromKafka(
        {"bootstrap.servers": "h:1"},
        ["t"],
        value_deserializer=f"org.apache.kafka.common.serialization.{deserializer}",
    )
    keys = "keys" >> beam.Map(lambda record: record[0])
    assert read(plans.planned(lambda p: p | records | keys | USE, "--streaming")) == columns
