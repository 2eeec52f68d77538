"""Rows that ``INSERT INTO`` writes to tables of ``ddl``."""

import json
import math
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.sql import SqlTransform
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from apache_beam.utils.timestamp import Timestamp
from in_process_batch import BatchRunner
from payloads import payload

from sparkbeam import ConfigurationError, PipelineFailed, SparkRunner, UnsupportedTransform
from sparkbeam.plan.spark_io import WRITE_URN, WriteSpec

pytest.importorskip("sqlglot")

from sparkbeam.replacements.calcite_ddl import declared
from sparkbeam.replacements.sql_records import FORMS, CsvRows, JsonRows
from sparkbeam.replacements.sql_written import CsvLine, RowWriter, json_object

COLUMNS = (
    "a TINYINT, b BIGINT NOT NULL, f FLOAT, x DOUBLE, n DECIMAL, y BOOLEAN, d DATE, t TIMESTAMP, "
    "s VARCHAR"
)
ROWS = [
    (1, 2**63 - 1, 0.5, -0.0, Decimal("-0.1"), True, date(2024, 2, 29), Timestamp(-0.5), "é,𝄞"),
    (
        -128,
        -(2**63),
        -1.5,
        1e300,
        Decimal(10) ** 19,
        False,
        date(1583, 1, 1),
        Timestamp(0),
        ' "q" ',
    ),
    (None, 0, None, None, None, None, None, None, ""),
]


def row(values: tuple[Any, ...]) -> beam.Row:
    return beam.Row(**dict(zip("abfxnydts", values, strict=True)))


@pytest.mark.parametrize("form", sorted(FORMS))
def test_lines_are_read_as_they_were_written(form: str) -> None:
    columns = declared(f"CREATE TABLE t ({COLUMNS}) TYPE text")["t"].columns
    write = RowWriter("t", columns, CsvLine(FORMS[form]))
    read = CsvRows("t", columns, FORMS[form])
    for values in ROWS:
        (found,) = read(write(row(values)))
        stripped = tuple(
            each.strip() if FORMS[form].strips and isinstance(each, str) else each
            for each in values
        )
        assert tuple(found) == stripped


def test_numbers_that_are_none_and_lines_within_texts_have_a_form() -> None:
    write = CsvLine(FORMS["default"])
    assert write({"x": math.nan, "y": -math.inf, "s": "a"}) == "NaN,-Infinity,a"
    with pytest.raises(ValueError, match="column 's': a text of several lines"):
        write({"s": "a\nb"})
    assert CsvLine(FORMS["mysql"])({"s": "a\n\\b\t", "n": None}) == "a\\n\\\\b\\t\t\\N"


def test_objects_are_read_as_they_were_written() -> None:
    more = "l ARRAY<BIGINT>, m MAP<VARCHAR, DECIMAL>, r ROW<`at` TIMESTAMP, s VARCHAR>"
    columns = declared(f"CREATE TABLE t ({COLUMNS}, {more}) TYPE text")["t"].columns
    given = row(ROWS[0]).as_dict() | {
        "a": np.int8(1),
        "l": [1, None],
        "m": {"k": Decimal("0.1000000000000000000001"), "": None},
        "r": beam.Row(at=Timestamp(5), s=None),
    }
    text = RowWriter("t", columns, json_object)(beam.Row(**given))
    assert json.loads(text)["b"] == 2**63 - 1
    (found,) = JsonRows("t", columns)(text)
    assert found.as_dict() == given
    with pytest.raises(ValueError, match="table 't': column 'x': nan, which JSON does not have"):
        RowWriter("t", columns, json_object)(beam.Row(**given | {"x": math.nan}))
    with pytest.raises(ValueError, match="column 'b': null, which is NOT NULL"):
        RowWriter("t", columns, json_object)(beam.Row(**given | {"b": None}))


PLACES = [
    ("text", "{}"),
    ("text", '{"format": "json"}'),
    ("avro", None),
    ("parquet", None),
]
VALUES = (
    "SELECT 7 / 2, 'é', 0.5, TIMESTAMP '2024-01-02 03:04:05.5', "
    "DATE '2024-02-29', CAST(1.5 AS DECIMAL), ARRAY[1, 2]"
)


@pytest.mark.part(2)
@pytest.mark.parametrize(("type", "properties"), PLACES)
def test_rows_of_a_query_are_inserted(
    spark: Any, tmp_path: Path, type: str, properties: str | None
) -> None:
    is_csv = properties == "{}"
    ddl = (
        "CREATE EXTERNAL TABLE t (id BIGINT, s VARCHAR, x DOUBLE, `at` TIMESTAMP, d DATE, "
        f"n DECIMAL{'' if is_csv else ', l ARRAY<BIGINT>'}) TYPE {type} LOCATION '{tmp_path}/t/'"
        + (f" TBLPROPERTIES '{properties}'" if properties else "")
    )
    query = VALUES.removesuffix(", ARRAY[1, 2]") if is_csv else VALUES
    for number in range(2):
        with beam.Pipeline(runner=SparkRunner(spark)) as pipeline:
            written = pipeline | SqlTransform(f"INSERT INTO t {query}", ddl=ddl)
            assert_that(written | beam.Map(lambda row: row.id), equal_to([3]), f"Written {number}")
    expected: tuple[Any, ...] = (
        3,
        "é",
        0.5,
        Timestamp(1704164645.5),
        date(2024, 2, 29),
        Decimal("1.5"),
    )
    with beam.Pipeline(runner=SparkRunner(spark)) as pipeline:
        rows = pipeline | SqlTransform("SELECT * FROM t", ddl=ddl)
        expected = expected if is_csv else (*expected, [1, 2])
        assert_that(rows | beam.Map(tuple), equal_to([expected] * 2))


def test_columns_that_are_not_named_are_null_and_values_have_the_types_of_columns(
    spark: Any, tmp_path: Path
) -> None:
    ddl = f"CREATE EXTERNAL TABLE t ({COLUMNS}) TYPE text LOCATION '{tmp_path}/t/'"
    with beam.Pipeline(runner=SparkRunner(spark)) as pipeline:
        rows = pipeline | beam.Create([beam.Row(k=5, v="x"), beam.Row(k=7, v="y")])
        _ = rows | SqlTransform("INSERT INTO t (s, b, x) SELECT v, k, k FROM PCOLLECTION", ddl=ddl)
    lines = [line for path in (tmp_path / "t").iterdir() for line in path.read_text().splitlines()]
    assert sorted(lines) == [",5,,5.0,,,,,x", ",7,,7.0,,,,,y"]


def test_the_rows_of_a_window_are_inserted_when_it_ends(tmp_path: Path) -> None:
    ddl = (
        f"CREATE EXTERNAL TABLE t (n BIGINT, `end` TIMESTAMP) TYPE text LOCATION '{tmp_path}/t/' "
        """TBLPROPERTIES '{"format": "json"}'"""
    )
    options = PipelineOptions(["--streaming"])
    with beam.Pipeline(runner=BatchRunner(), options=options) as pipeline:
        rows = pipeline | beam.Create([beam.Row(at=Timestamp(at)) for at in (1, 2, 11)])
        stamped = rows | beam.Map(lambda row: TimestampedValue(row, row.at)).with_output_types(
            rows.element_type
        )
        rows = stamped | beam.WindowInto(FixedWindows(10))
        end = "TUMBLE_END(`at`, INTERVAL '10' SECOND)"
        _ = rows | SqlTransform(
            f"INSERT INTO t SELECT COUNT(*), {end} FROM PCOLLECTION "
            "GROUP BY TUMBLE(`at`, INTERVAL '10' SECOND)",
            ddl=ddl,
        )
    lines = [line for path in (tmp_path / "t").iterdir() for line in path.read_text().splitlines()]
    assert sorted(map(json.loads, lines), key=str) == [
        {"n": 1, "end": "1970-01-01 00:00:20"},
        {"n": 2, "end": "1970-01-01 00:00:10"},
    ]


def test_a_topic_of_kafka_is_written() -> None:
    pipeline = beam.Pipeline(runner=SparkRunner(), options=PipelineOptions(["--streaming"]))
    rows = pipeline | beam.Create([beam.Row(id=1)])
    _ = rows | SqlTransform(
        "INSERT INTO k SELECT id FROM PCOLLECTION",
        ddl="CREATE EXTERNAL TABLE k (id BIGINT) TYPE kafka LOCATION 'h:1/t' "
        """TBLPROPERTIES '{"producer_config": {"client.id": "c"}, "format": "json"}'""",
    )
    options = dict(WriteSpec.unpack(payload(WRITE_URN, pipeline)).options)
    assert options["topic"] == "t"
    assert options["kafka.bootstrap.servers"] == "h:1"
    assert options["kafka.client.id"] == "c"


TABLE = "CREATE EXTERNAL TABLE t (id BIGINT NOT NULL, s VARCHAR) TYPE text LOCATION '/xyzzy/'"


@pytest.mark.parametrize(
    ("query", "ddl", "message"),
    [
        ("INSERT INTO u SELECT 1, 'a'", TABLE, "ddl declares no table of this name"),
        ("INSERT INTO t SELECT 1", TABLE, "names 2 columns, and the query has 1"),
        ("INSERT INTO t (id, x) SELECT 1, 2", TABLE, "has no column 'x'; it has id, s"),
        ("INSERT INTO t (id, id) SELECT 1, 2", TABLE, "names 2 columns"),
        ("INSERT INTO t SELECT 1, 'a'", TABLE.replace("xyzzy/", "xyzzy*"), "is a pattern"),
        ("INSERT INTO t SELECT 1, 'a'", TABLE.replace("text", "bigquery"), "be written here"),
        ("INSERT INTO t SELECT 1, 'a'", TABLE.replace("text", "mongodb"), "such as 'mongodb://"),
        (
            "INSERT INTO t SELECT 1, 'a'",
            TABLE.replace("/xyzzy/", "h:1/t").replace("text", "kafka")
            + """ TBLPROPERTIES '{"topics": ["u"]}'""",
            "has 2 topics",
        ),
    ],
)
def test_a_wrong_insertion_is_an_error(spark: Any, query: str, ddl: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^'Insert': .*{message}") as caught:
        _ = beam.Pipeline(runner=SparkRunner(spark)) | "Insert" >> SqlTransform(query, ddl=ddl)
    assert "xyzzy" not in str(caught.value)


def test_insertions_that_are_none_are_named() -> None:
    pipeline = beam.Pipeline(runner=BatchRunner())
    with pytest.raises(UnsupportedTransform, match="INSERT other than INSERT INTO"):
        _ = pipeline | SqlTransform("INSERT OVERWRITE TABLE t SELECT 1", ddl=TABLE)


def test_a_row_that_does_not_fit_ends_the_pipeline(tmp_path: Path) -> None:
    ddl = TABLE.replace("/xyzzy/", f"{tmp_path}/")
    pipeline = beam.Pipeline(runner=BatchRunner(), options=PipelineOptions(["--streaming"]))
    rows = pipeline | beam.Create([beam.Row(s="a")]) | beam.WindowInto(FixedWindows(1))
    _ = rows | SqlTransform("INSERT INTO t (s) SELECT s FROM PCOLLECTION", ddl=ddl)
    with pytest.raises(PipelineFailed, match="table 't': column 'id': null, which is NOT NULL"):
        pipeline.run().wait_until_finish()


def test_numbers_of_all_sizes_are_read_and_written(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "0").write_text(f"-128,-32768,{-(2**31)},{-(2**63)}\n127,32767,0,1\n")
    columns = "a TINYINT, b SMALLINT, c INTEGER, d BIGINT"
    ddl = "; ".join(
        f"CREATE EXTERNAL TABLE {name} ({columns}) TYPE text LOCATION '{tmp_path}/{name}/'"
        for name in "tu"
    )
    options = PipelineOptions(["--streaming"])
    with beam.Pipeline(runner=BatchRunner(), options=options) as pipeline:
        rows = pipeline | SqlTransform("INSERT INTO u SELECT * FROM t", ddl=ddl)
        sums = rows | "Sums" >> SqlTransform("SELECT SUM(a), MIN(b), MAX(a) FROM PCOLLECTION")
        assert_that(sums | beam.Map(tuple), equal_to([(-1, -32768, 127)]))
    (path,) = (tmp_path / "u").iterdir()
    assert sorted(path.read_text().splitlines()) == [
        f"-128,-32768,{-(2**31)},{-(2**63)}",
        "127,32767,0,1",
    ]
    pipeline = beam.Pipeline(runner=BatchRunner(), options=options)
    _ = pipeline | SqlTransform("INSERT INTO u SELECT b, b, b, b FROM t", ddl=ddl)
    with pytest.raises(PipelineFailed, match=r"table 'u': -?[0-9]+ is no TINYINT"):
        pipeline.run().wait_until_finish()


MIXED = "a INTEGER, x DOUBLE, n DECIMAL, d DATE, `at` TIMESTAMP, f FLOAT, s VARCHAR"


@pytest.mark.parametrize("kind", ["text", "avro", "parquet"])
def test_constants_are_inserted_in_a_stream_in_the_types_of_the_columns(
    tmp_path: Path, kind: str
) -> None:
    ddl = f"CREATE EXTERNAL TABLE t ({MIXED}) TYPE {kind} LOCATION '{tmp_path}/t/'"
    options = PipelineOptions(["--streaming"])
    with beam.Pipeline(runner=BatchRunner(), options=options) as pipeline:
        _ = pipeline | SqlTransform(
            "INSERT INTO t VALUES (7 / 2, 2.5, 1.25, DATE '2024-02-29', "
            "TIMESTAMP '1969-12-31 23:59:59.5', 0.5, 'é'), (NULL, 1, 2, NULL, NULL, 3, '')",
            ddl=ddl,
        )
        _ = pipeline | "Others" >> SqlTransform(
            "INSERT INTO t (n, d) SELECT 7, '2024-3-1'", ddl=ddl.replace("/t/'", "/t/others'")
        )
    with beam.Pipeline(runner=BatchRunner(), options=options) as pipeline:
        rows = pipeline | SqlTransform("SELECT * FROM t", ddl=ddl)
        time = Timestamp(-0.5)
        expected = [
            (3, 2.5, Decimal("1.25"), date(2024, 2, 29), time, 0.5, "é"),
            (None, 1.0, Decimal(2), None, None, 3.0, ""),
            (None, None, Decimal(7), date(2024, 3, 1), None, None, "" if kind == "text" else None),
        ]
        assert_that(rows | beam.Map(tuple), equal_to(expected))


def test_a_constant_that_its_column_cannot_have_ends_the_pipeline(tmp_path: Path) -> None:
    ddl = f"CREATE EXTERNAL TABLE t ({MIXED}) TYPE text LOCATION '{tmp_path}/'"
    pipeline = beam.Pipeline(runner=BatchRunner(), options=PipelineOptions(["--streaming"]))
    _ = pipeline | SqlTransform("INSERT INTO t (a) VALUES (3000000000)", ddl=ddl)
    with pytest.raises(PipelineFailed, match="out of the range of 32 bits"):
        pipeline.run().wait_until_finish()
