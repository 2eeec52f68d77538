"""Tables that ``ddl`` of a query declares."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import apache_beam as beam
import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.sql import SqlTransform
from apache_beam.transforms.window import FixedWindows, GlobalWindows
from apache_beam.utils.timestamp import Timestamp
from in_process_batch import BatchRunner
from payloads import payload

from sparkbeam import ConfigurationError, PipelineFailed, SparkRunner, UnsupportedTransform
from sparkbeam.plan.spark_io import READ_URN, ReadSpec

pytest.importorskip("sqlglot")

from sparkbeam.replacements.calcite_ddl import declared
from sparkbeam.replacements.calcite_dialect import QueryRefused
from sparkbeam.replacements.sql_managed import iceberg_config, write_delta
from sparkbeam.replacements.sql_records import FORMS, RowOf
from sparkbeam.replacements.sql_tables import config_of


def plain(rows: Any) -> Any:
    return rows | "Plain" >> beam.Map(tuple)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "it's.csv").write_text('1,"a, b",2.5,true,2024-01-02\r\n\n2,,,,\n')
    (tmp_path / "rows.json").write_text(
        '{"id": 1, "tags": ["x", null], "of": {"a": 5, "at": "2024-01-02T03:04:05Z"}}\n{"id": 2}\n'
    )
    columns = {
        "id": pa.array([1, 2], pa.int64()),
        "day": [date(2024, 1, 2), None],
        "at": [datetime(2024, 1, 2, 3, 4, 5), None],
        "more": ["x", "y"],
    }
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet")
    schema: Any = {
        "type": "record",
        "name": "r",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "of", "type": {"type": "map", "values": "long"}},
        ],
    }
    with (tmp_path / "rows.avro").open("wb") as file:
        fastavro.writer(file, schema, [{"id": 1, "of": {"a": 5}}, {"id": 2, "of": {}}])
    return tmp_path


CSV = (
    "CREATE EXTERNAL TABLE `odd ``name` (id BIGINT NOT NULL, `ab` VARCHAR(9), price DECIMAL(9, 2), "
    "yes BOOLEAN COMMENT 'sure', d DATE) COMMENT 'ours' TYPE text LOCATION '{}/it''s.csv'"
)
JSON = (
    "create external table IF NOT EXISTS j (id INT, tags ARRAY<VARCHAR>, "
    "`of` ROW<a BIGINT NOT NULL, at TIMESTAMP>) TYPE 'text' LOCATION '{}/*.json' "
    """TBLPROPERTIES '{{"format": "json"}}'"""
)
PARQUET = (
    "CREATE TABLE p (at TIMESTAMP, id INTEGER, day DATE) TYPE parquet LOCATION '{}/rows.parquet'"
)
AVRO = "CREATE EXTERNAL TABLE v (id INTEGER, `of` MAP<VARCHAR, BIGINT>) TYPE avro LOCATION '{}/*o'"
LINES = (
    "CREATE EXTERNAL TABLE n (line VARCHAR) TYPE text LOCATION '{}/rows.json' "
    """TBLPROPERTIES '{{"format": "lines"}}'"""
)

READS = [
    (
        CSV,
        "SELECT id, `ab` AS t, price, yes, d FROM `odd ``name`",
        [(1, "a, b", Decimal("2.5"), True, date(2024, 1, 2)), (2, "", None, None, None)],
    ),
    (
        JSON,
        "SELECT id, tags, j.`of`.a AS a, j.`of`.at AS `at` FROM j",
        [(1, ["x", None], 5, Timestamp(1704164645)), (2, None, None, None)],
    ),
    (PARQUET, "SELECT * FROM p", [(Timestamp(1704164645), 1, date(2024, 1, 2)), (None, 2, None)]),
    (AVRO, "SELECT id, `of`['a'] AS a FROM v", [(1, 5), (2, None)]),
    (LINES, "SELECT COUNT(*) AS n FROM n WHERE line LIKE '{%'", [(2,)]),
]


@pytest.mark.parametrize(("ddl", "query", "expected"), READS)
def test_the_rows_of_a_declared_table_are_queried(
    spark: Any, folder: Path, ddl: str, query: str, expected: list[Any]
) -> None:
    with beam.Pipeline(runner=SparkRunner(spark)) as pipeline:
        rows = pipeline | SqlTransform(query, ddl=ddl.format(str(folder)))
        assert_that(plain(rows), equal_to(expected))


def test_files_of_parquet_stay_with_spark(spark: Any, folder: Path) -> None:
    pipeline = beam.Pipeline(runner=SparkRunner(spark))
    rows = pipeline | SqlTransform("SELECT id FROM p", ddl=PARQUET.format(str(folder)))
    _ = rows | beam.Map(print)
    assert "Rows" not in SparkRunner(spark).explain(pipeline).stages


def test_a_stream_is_joined_to_a_declared_table(folder: Path) -> None:
    ddl = f"SET x = 1; {PARQUET};{AVRO}".format(str(folder), str(folder))
    options = PipelineOptions(["--streaming"])
    with beam.Pipeline(runner=BatchRunner(), options=options) as pipeline:
        events = pipeline | beam.Create([beam.Row(user=1), beam.Row(user=3)])
        events.is_bounded = False
        rows = events | SqlTransform(
            "SELECT user, p.day FROM PCOLLECTION e LEFT JOIN p ON e.user = p.id", ddl=ddl
        )
        assert_that(plain(rows), equal_to([(1, date(2024, 1, 2)), (3, None)]))


def test_a_declared_table_is_grouped_in_windows(folder: Path) -> None:
    (folder / "t.csv").write_text("".join(f"{n},1970-01-01 00:00:{n:02}\n" for n in (1, 9, 11)))
    ddl = f"CREATE EXTERNAL TABLE t (n INT, at TIMESTAMP) TYPE text LOCATION '{folder}/t.csv'"
    with beam.Pipeline(runner=BatchRunner()) as pipeline:
        rows = pipeline | SqlTransform(
            "SELECT SUM(n) AS s FROM t GROUP BY TUMBLE(at, INTERVAL '10' SECOND)", ddl=ddl
        )
        assert_that(plain(rows), equal_to([(10,), (11,)]))


KAFKA = "CREATE EXTERNAL TABLE k (id BIGINT) TYPE kafka LOCATION 'h:1/t' TBLPROPERTIES '{}'"


def kafka_spec(properties: dict[str, Any], *options: str) -> ReadSpec:
    pipeline = beam.Pipeline(runner=SparkRunner(), options=PipelineOptions([*options]))
    ddl = KAFKA.format(json.dumps(properties).replace("'", "''"))
    query = "SELECT SUM(id) AS s FROM k GROUP BY TUMBLE(CURRENT_TIMESTAMP, INTERVAL '1' DAY)"
    with pytest.raises(UnsupportedTransform, match="CURRENT_TIMESTAMP"):
        _ = pipeline | SqlTransform(query, ddl=ddl)
    return ReadSpec.unpack(payload(READ_URN, pipeline))


def test_a_table_of_kafka_has_brokers_topics_and_the_settings_of_a_consumer() -> None:
    config = {"client.id": "it's"}
    spec = kafka_spec(
        {"bootstrap_servers": ["g:2"], "topics": ["u"], "format": "json", "consumer_config": config}
    )
    assert dict(spec.options).items() >= {
        "kafka.bootstrap.servers": "h:1,g:2",
        "subscribe": "t,u",
        "startingOffsets": "earliest",
        "kafka.client.id": "it's",
    }.items()  # fmt: skip
    stream = kafka_spec({"watermark.type": "CreateTime"}, "--streaming")
    assert dict(stream.options)["startingOffsets"] == "latest"
    assert stream.timestamp_column is not None


TABLE = "CREATE EXTERNAL TABLE t (id BIGINT, s VARCHAR) TYPE text LOCATION 'password=xyzzy'"
CATALOG = "CREATE CATALOG c TYPE 'iceberg' PROPERTIES ('type' = 'hadoop', 'token' = 'xyzzy')"


@pytest.mark.parametrize(
    ("ddl", "message"),
    [
        ("CREATE EXTERNAL TABLE t (id BIGINT) LOCATION 'xyzzy'", "needs TYPE in line 1, column"),
        ("CREATE EXTERNAL TABLE t (id BIGINT) TYPE text LOCATION xyzzy", "a text in single quotes"),
        (f"{TABLE} TBLPROPERTIES '{{\"password\": xyzzy'", "'t' must be an object in JSON"),
        (f"{TABLE} TBLPROPERTIES '[\"xyzzy\"]'", "must be an object in JSON"),
        (f'{TABLE} TBLPROPERTIES \'{{"pass": "xyzzy"}}\'', "has pass, which has no meaning"),
        (f'{TABLE} TBLPROPERTIES \'{{"format": ["xyzzy"]}}\'', "'format'.*must be a text"),
        (f'{TABLE} TBLPROPERTIES \'{{"format": "lines"}}\'', "give it one column"),
        (f'{TABLE} TBLPROPERTIES \'{{"format": "yaml"}}\'', "'yaml'; known are csv, json, lines"),
        (f"{TABLE} xyzzy", "the end of the statement"),
        (f"{TABLE}; {TABLE}", "'t' twice"),
        (TABLE.replace("BIGINT", "BIGNUM"), "'BIGNUM'; known are TINYINT"),
        (TABLE.replace("BIGINT", "ARRAY<INT>"), "'id' of the table 't' is no simple type"),
        (TABLE.replace("s VARCHAR", "id INT"), "the column 'id' twice"),
        (TABLE.replace("s VARCHAR", "`a b` INT"), "'a b', which cannot be an attribute"),
        (TABLE.replace("s VARCHAR", "r ROW<class INT>"), "'class', which cannot be"),
        (TABLE.replace("text", "bigquery"), "'bigquery', which cannot be read.*ReadFromSpark"),
        (TABLE.replace("text", "kafka"), "needs a broker and a topic"),
        (TABLE, "'t' of ddl has no file"),
        (TABLE.replace("text", "parquet"), "Spark cannot read the table 't'"),
        (f"{TABLE}; DROP TABLE t", "There is no table 't'"),
        ("DROP TABLE t", "'t', which it has not declared"),
        ("DROP CATALOG c", "drops the catalog 'c', which it has not declared"),
        ("USE CATALOG c", "'c', which it has not declared: declare it with CREATE CATALOG"),
        ("CREATE CATALOG c TYPE hive", "'hive'; known is iceberg"),
        (f"{CATALOG}; {CATALOG}", "the catalog 'c' twice"),
        (CATALOG.replace(" = ", " "), "ddl needs = in line"),
        (TABLE.replace("text", "delta").replace("LOCATION", "COMMENT"), "the end of the statement"),
        ("CREATE EXTERNAL TABLE t (id BIGINT) TYPE text LOCATION 'xyzzy", "does not end"),
        (TABLE.replace("TABLE t", "TABLE PCOLLECTION"), "'PCOLLECTION', which is an input"),
    ],
)
def test_a_wrong_declaration_is_an_error_without_values(spark: Any, ddl: str, message: str) -> None:
    rows = beam.Pipeline(runner=SparkRunner(spark)) | beam.Create([beam.Row(id=1)])
    with pytest.raises(ConfigurationError, match=f"^'Query': .*{message}") as caught:
        _ = rows | "Query" >> SqlTransform("SELECT * FROM t", ddl=ddl)
    assert "xyzzy" not in str(caught.value)


@pytest.mark.parametrize(
    ("ddl", "statement", "remedy"),
    [
        ("ALTER CATALOG c SET ('a' = 'b')", "ALTER CATALOG", "USE CATALOG"),
        ("DROP DATABASE d", "DROP DATABASE", "CREATE CATALOG"),
        ("INSERT INTO t SELECT 1", "INSERT INTO", "Make it the query"),
        ("ALTER TABLE t ADD x", "ALTER TABLE", "CREATE EXTERNAL TABLE"),
        ("CREATE EXTERNAL TABLE t (i INT) PARTITIONED BY ('i') TYPE x", "PARTITIONED BY", "sql.md"),
    ],
)
def test_other_statements_are_named(ddl: str, statement: str, remedy: str) -> None:
    with pytest.raises(QueryRefused, match=statement) as caught:
        declared(ddl)
    assert remedy in caught.value.remedy


def test_a_catalog_in_use_is_that_of_the_tables_behind_it() -> None:
    lake = TABLE.replace("TABLE t", "TABLE u")
    lake = lake.replace("TYPE text", "PARTITIONED BY ('id', 'day(s)') TYPE 'Iceberg'")
    ddl = (
        f"{TABLE}; {CATALOG}; USE CATALOG c; CREATE DATABASE IF NOT EXISTS a.b; USE DATABASE a.b; "
        f"{lake}; USE CATALOG 'default'; {TABLE.replace('TABLE t', 'TABLE v')}; DROP CATALOG c"
    )
    found = declared(ddl)
    t, u, v = (found[name] for name in "tuv")
    assert t.catalog is v.catalog is None
    assert u.catalog is not None
    assert (u.catalog.name, u.catalog.properties) == ("c", {"type": "hadoop", "token": "xyzzy"})
    assert (u.type, u.database, u.partitions) == ("iceberg", "a.b", ("id", "day(s)"))
    assert "xyzzy" not in repr(found)


ICEBERG = "CREATE EXTERNAL TABLE t (id BIGINT) TYPE iceberg"


@pytest.mark.parametrize(
    ("ddl", "config"),
    [
        (
            f"""{ICEBERG} LOCATION 'd.u' TBLPROPERTIES '{{"catalog_name": "n"}}'""",
            {"table": "d.u", "catalog_name": "n"},
        ),
        (
            "CREATE CATALOG c TYPE iceberg PROPERTIES ('uri' = 'u', 'beam.catalog.hadoop.fs' = 'f')"
            f"; USE CATALOG c; USE DATABASE d; {ICEBERG}",
            {
                "table": "d.t",
                "catalog_name": "c",
                "catalog_properties": {"uri": "u"},
                "config_properties": {"fs": "f"},
            },
        ),
        (f"{ICEBERG} LOCATION 'u'", "needs the name of a table of Iceberg with its namespace"),
        (
            f"""{CATALOG}; USE CATALOG c; {ICEBERG} TBLPROPERTIES '{{"catalog_name": "n"}}'
            LOCATION 'd.t'""",
            "the end of the statement",
        ),
        (
            f"""{CATALOG}; USE CATALOG c; {ICEBERG} LOCATION 'd.t'
            TBLPROPERTIES '{{"catalog_name": "n"}}'""",
            "a catalog in TBLPROPERTIES, and the one of USE CATALOG",
        ),
    ],
)
def test_a_table_of_iceberg_is_that_of_managed_transforms(
    ddl: str, config: dict[str, Any] | str
) -> None:
    if isinstance(config, str):
        with pytest.raises(ConfigurationError, match=config):
            iceberg_config(declared(ddl)["t"])
        return
    assert iceberg_config(declared(ddl)["t"]) == config


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("LOCATION 'xyzzy'", "is a name, and rows are written to a path"),
        ("TBLPROPERTIES '{}'", "needs a LOCATION"),
        ("LOCATION '/xyzzy' TBLPROPERTIES '{\"version\": 1}'", "has version, which has no meaning"),
    ],
)
def test_rows_are_written_to_a_table_of_delta_by_its_path(place: str, message: str) -> None:
    table = declared(f"CREATE EXTERNAL TABLE t (id BIGINT) TYPE delta {place}")["t"]
    with pytest.raises(ConfigurationError, match=message) as caught:
        write_delta(table, config_of(table))
    assert "xyzzy" not in str(caught.value)


def test_tables_are_declared_and_dropped_in_order() -> None:
    ddl = f"{TABLE}; DROP TABLE IF EXISTS u; SET a = 'b'; {TABLE.replace('TABLE t', 'TABLE u')}"
    assert list(declared(ddl)) == ["t", "u"]
    assert list(declared(f"{ddl}; DROP TABLE t;")) == ["u"]
    assert "xyzzy" not in repr(declared(ddl))


def test_a_table_that_no_query_reads_is_not_looked_for() -> None:
    with beam.Pipeline(runner=BatchRunner()) as pipeline:
        rows = pipeline | beam.Create([beam.Row(n=1)]) | beam.WindowInto(FixedWindows(1))
        found = rows | SqlTransform("SELECT n FROM PCOLLECTION", ddl=TABLE)
        assert_that(plain(found) | "All" >> beam.WindowInto(GlobalWindows()), equal_to([(1,)]))


COLUMNS = declared(
    "CREATE TABLE t (a TINYINT, b BIGINT, f FLOAT, x DOUBLE, n DECIMAL, y BOOLEAN, d DATE, "
    "t TIMESTAMP, s CHAR) TYPE text"
)["t"].columns


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (
            ["-128", "+9223372036854775807", "-1.5", "1e-3", "0.1", "FALSE", "2024-02-29", "", ""],
            (-128, 2**63 - 1, -1.5, 0.001, Decimal("0.1"), False, date(2024, 2, 29), None, ""),
        ),
        (
            [" 1 ", "", "", "NaN", "1" * 30, "", "", "1969-12-31 23:59:59.5", " 𝄞 "],
            (1, None, None, "nan", Decimal("1" * 30), None, None, Timestamp(-0.5), " 𝄞 "),
        ),
    ],
)
def test_texts_become_values(texts: list[str], expected: tuple[Any, ...]) -> None:
    found = tuple(COLUMNS.of_texts([*texts]))
    if expected[3] == "nan":
        assert str(found[3]) == "nan"
        found, expected = found[:3] + found[4:], expected[:3] + expected[4:]
    assert tuple(found) == expected


@pytest.mark.parametrize(
    ("column", "text"),
    [
        *(("a", text) for text in ("128", "1_0", "1.0", "\u0661", "one", "0x1")),
        *(("b", text) for text in (str(2**63), "1e3")),
        *(("f", text) for text in ("1_0.0", "1f", "")),
        ("y", "1"),
        ("d", "2023-02-29"),
        ("t", "yesterday"),
    ],
)
def test_a_text_of_another_type_is_an_error_that_names_the_column(column: str, text: str) -> None:
    fields = RowOf(tuple(each for each in COLUMNS.fields if each.name == column))
    if not text:
        assert tuple(fields.of_texts([text])) == (None,)
        return
    with pytest.raises(ValueError, match=f"column '{column}': .* is no "):
        fields.of_texts([text])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (
            {"a": 1, "x": 2, "n": Decimal("1.5"), "y": True, "s": "é"},
            {"a": 1, "x": 2.0, "n": Decimal("1.5"), "y": True, "s": "é"},
        ),
        (
            {"d": "2024-01-02", "t": "2024-01-02T00:00:00+01:00"},
            {"d": date(2024, 1, 2), "t": Timestamp(1704150000)},
        ),
        (
            {"d": date(2024, 1, 2), "t": datetime(2024, 1, 2, tzinfo=UTC)},
            {"d": date(2024, 1, 2), "t": Timestamp(1704153600)},
        ),
    ],
)
def test_values_of_records_become_those_of_rows(value: Any, expected: dict[str, Any]) -> None:
    none = dict.fromkeys(field.name for field in COLUMNS.fields)
    assert COLUMNS.value(value).as_dict() == none | expected


@pytest.mark.parametrize("value", [{"a": True}, {"a": 128}, {"b": "1"}, {"y": 1}, {"s": 1}, 5, []])
def test_a_value_of_another_type_is_an_error(value: Any) -> None:
    with pytest.raises(ValueError, match="is no "):
        COLUMNS.value(value)


@pytest.mark.parametrize(
    ("form", "line", "fields"),
    [
        ("default", '1,"a ""b"", c",', ["1", 'a "b", c', ""]),
        ("default", "", None),
        ("excel", "", [""]),
        ("tdf", " a \t b,c ", ["a", "b,c"]),
        ("mysql", '\\N\ta\\tb\\\\\t\t"\\"', [None, "a\tb\\", "", '""']),
        ("mysql", "a\\", ["a\\"]),
    ],
)
def test_lines_have_the_fields_of_their_form(
    form: str, line: str, fields: list[str | None] | None
) -> None:
    assert FORMS[form].fields(line) == fields


def test_a_record_that_does_not_fit_ends_the_pipeline_with_table_and_column(folder: Path) -> None:
    (folder / "t.csv").write_text("1,2\n1,b\n")
    ddl = f"CREATE EXTERNAL TABLE t (a INT, b INT NOT NULL) TYPE text LOCATION '{folder}/t.csv'"
    pipeline = beam.Pipeline(runner=BatchRunner(), options=PipelineOptions(["--streaming"]))
    _ = pipeline | SqlTransform("SELECT a FROM t", ddl=ddl)
    with pytest.raises(PipelineFailed, match="table 't': column 'b': 'b' is no INTEGER"):
        pipeline.run().wait_until_finish()
