"""Rows of Spark's sources are what the coder of the source makes of them."""

import pickle
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from apache_beam.coders import registry
from apache_beam.internal import pickler
from apache_beam.utils.timestamp import Timestamp
from pyspark.sql import types as st

from sparkbeam.connectors.schemas import arrow_schema, row_type
from sparkbeam.plan.spark_io import ReadSpec
from sparkbeam.wire.failure import StepFailed
from sparkbeam.worker.connectors.row_maker import RowMaker
from sparkbeam.worker.connectors.spark_rows import RowReader, RowSource

WHEN = datetime(2024, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)
INNER = st.StructType(
    [
        st.StructField("name", st.StringType(), True),
        st.StructField("at", st.TimestampType(), True),
    ]
)
SCHEMA = st.StructType(
    [
        st.StructField("id", st.LongType(), False),
        st.StructField("small", st.ShortType(), True),
        st.StructField("price", st.DecimalType(10, 2), True),
        st.StructField("at", st.TimestampType(), True),
        st.StructField("tags", st.ArrayType(st.StringType()), True),
        st.StructField("inner", INNER, True),
        st.StructField("parts", st.ArrayType(INNER), True),
        st.StructField("byname", st.MapType(st.StringType(), INNER), True),
    ]
)
CODER: Any = registry.get_coder(row_type(SCHEMA))
FULL: dict[str, Any] = {
    "id": 1,
    "small": 2,
    "price": Decimal("3.50"),
    "at": WHEN,
    "tags": ["a", None],
    "inner": {"name": "x", "at": WHEN},
    "parts": [{"name": None, "at": WHEN}, None],
    "byname": {"k": {"name": "y", "at": None}},
}
EMPTY: dict[str, Any] = {**dict.fromkeys(FULL), "id": 2}


def made() -> list[Any]:
    table = pa.Table.from_pylist([FULL, EMPTY], arrow_schema(SCHEMA))
    return RowMaker(CODER).column([one.combine_chunks() for one in table.columns]).values()


def test_rows_are_what_their_coder_decodes() -> None:
    full, empty = made()
    for row in (full, empty):
        again = CODER.decode(CODER.encode(row))
        assert again == row
        assert type(again) is type(row)
    assert full.at == full.inner.at == full.parts[0].at == Timestamp.from_utc_datetime(WHEN)
    assert type(CODER.decode(CODER.encode(full)).parts[0]) is type(full.parts[0])
    assert empty.parts is None


def test_rows_may_be_anywhere_in_values_of_no_type() -> None:
    for row in made():
        assert pickle.loads(pickle.dumps({"row": row})) == {"row": row}
        coder = registry.get_coder(object)
        assert coder.decode(coder.encode({"row": row})) == {"row": row}


def source(**more: Any) -> RowSource:
    kind = st.StructType([st.StructField("id", st.LongType(), False)])
    coder = pickler.dumps(registry.get_coder(row_type(kind)))
    return RowSource("Read", ReadSpec("parquet", (), None, ("id",), "at", 0, coder=coder, **more))


def batch(ids: list[int], times: list[int | None]) -> pa.RecordBatch:
    return pa.record_batch([pa.array(ids, pa.int64()), pa.array(times, pa.int64())], ["id", "at"])


def test_elements_have_the_times_of_their_rows_in_milliseconds() -> None:
    batches = [batch([1, 2], [1_500, -1_500]), batch([], []), batch([3, 4], [7_000, 7_999])]
    found = [element for block in source().blocks(batches) for element in block.elements()]
    assert [(element.value.id, element.timestamp.micros) for element in found] == [
        (1, 1_000),
        (2, -1_000),
        (3, 7_000),
        (4, 7_000),
    ]


def test_a_row_without_time_ends_the_step_that_reads() -> None:
    blocks = source().blocks([batch([1], [0]), batch([2], [None])])
    assert next(blocks).values[0].id == 1
    with pytest.raises(StepFailed, match="cannot be read") as failed:
        next(blocks)
    assert failed.value.label == "Read"
    assert "'at' has a null" in str(failed.value.__cause__)


@pytest.mark.parametrize(
    ("partitions", "names"),
    [(["t/0", "t/1", "t/0"], ["t/0", "t/1"]), ([-5, 1 << 62, -5], ["-5", str(1 << 62)])],
    ids=["texts", "numbers"],
)
def test_the_newest_of_a_partition_is_noted_under_its_name(
    partitions: list[Any], names: list[str]
) -> None:
    reader = RowReader(source().spec, partitioned=True)
    times = batch([1, 2, 3], [4_000, 5_000, 6_000])
    for _ in reader.blocks(times.append_column("partition", pa.array(partitions))):
        pass
    assert reader.newest == dict(zip(names, [6_000, 5_000], strict=True))
