"""Arrow types whose rows Arrow cannot take: their values come through all steps nevertheless."""

from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from apache_beam.transforms.window import FixedWindows, Sessions
from noting import noted

from sparkbeam.columns import UnknownShape
from sparkbeam.columns.view_types import plain, plain_type
from sparkbeam.io import ReadFromArrow

TEXTS = ["a", None, "b" * 30, "", "a"]
COLUMNS: dict[str, pa.Array] = {
    "texts": pa.array(TEXTS, pa.string_view()),
    "bytes": pa.array([b"a", None, b"b" * 30, b"", b"a"], pa.binary_view()),
    "structs": pa.StructArray.from_arrays([pa.array(TEXTS, pa.string_view())], ["inner"]),
    "lists": pa.array([["a"], [], None, ["b"], ["a"]], pa.list_(pa.string_view())),
    "large lists": pa.array([["a"], [], None, ["b"], ["a"]], pa.large_list(pa.string_view())),
    "pairs": pa.array([["a", "b"]] * 5, pa.list_(pa.string_view(), 2)),
    "maps": pa.array([[("k", "a")], None, [], [], []], pa.map_(pa.string(), pa.string_view())),
    "runs": pc.run_end_encode(pa.array([1, 1, 2, 2, 2])),
    "list views": pa.array([["a"], [], None, ["b"], ["a"]], pa.list_view(pa.string_view())),
}


def read(number: int) -> list[pa.RecordBatch]:
    array = list(COLUMNS.values())[number]
    times = pa.array([0, 9, 3, 30, 2], pa.int64())
    return [pa.record_batch({"n": range(5), "v": array, "at": pc.multiply(times, 1_000_000)})]


def build(p: beam.Pipeline, number: int) -> Any:
    rows = p | ReadFromArrow([number], read, timestamp_column="at")
    shuffled = rows | beam.Filter(lambda row: row.n % 2 == 0) | beam.Reshuffle()
    pairs = rows | "pairs" >> beam.Map(lambda row: (row.n % 2, row.v))
    grouped = pairs | beam.WindowInto(Sessions(5)) | beam.GroupByKey()
    last = pairs | "into" >> beam.WindowInto(FixedWindows(10)) | beam.combiners.Latest.PerKey()
    sets = grouped | beam.MapTuple(lambda key, values: (key, sorted(map(str, values))))
    told = [shuffled | "row" >> beam.Map(str), sets | "set" >> beam.Map(str), last | beam.Map(str)]
    return told | beam.Flatten()


@pytest.mark.part(4)
@pytest.mark.parametrize("name", COLUMNS)
def test_values_come_through(name: str) -> None:
    number = list(COLUMNS).index(name)
    over_columns = noted(lambda p: build(p, number))
    assert over_columns == noted(lambda p: build(p, number), "--columns=off")
    assert len(over_columns) >= 6


@pytest.mark.parametrize("name", COLUMNS)
def test_a_plain_batch_has_the_same_values_and_can_be_taken(name: str) -> None:
    batch = pa.record_batch({"v": COLUMNS[name]})
    if name in ("runs", "list views"):
        with pytest.raises(UnknownShape, match="Arrow cannot select rows of"):
            plain(batch)
        return
    made = plain(batch)
    assert made.to_pylist() == batch.to_pylist()
    assert made.take(pa.array([1, 0])).to_pylist() == batch.to_pylist()[1::-1]


@pytest.mark.parametrize(
    "kind", [pa.int64(), pa.string(), pa.list_(pa.struct({"a": pa.date32()})), pa.bool8()]
)
def test_types_that_can_be_taken_stay(kind: pa.DataType) -> None:
    assert plain_type(kind) == kind
