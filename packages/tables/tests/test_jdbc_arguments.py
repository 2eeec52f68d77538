"""Arguments of ``ReadFromJdbc`` and ``WriteToJdbc``, most of them over Derby, which Spark has."""

import logging
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import page_programs
import pytest
from apache_beam.io.jdbc import ReadFromJdbc, WriteToJdbc
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to
from database_servers import Sql

from sparkbeam import ConfigurationError, PipelineFailed, SparkRunner
from sparkbeam.upstream.spark import jdbc_connection
from sparkbeam_tables import catalog_reads as table_reads

SECRET = "hunter2-of-nobody"


class Pair(NamedTuple):
    """A row whose fields have other names than the columns."""

    key: int
    value: str | None


class Wide(NamedTuple):
    """A row with more fields than there are columns."""

    a: int
    b: int
    c: int
    d: int


@pytest.fixture
def derby(spark: Any, tmp_path: Path) -> dict[str, Any]:
    """The arguments for a database with the table ``pairs``."""
    url = f"jdbc:derby:memory:{tmp_path.name};create=true"
    with jdbc_connection(spark, {"url": url, "dbtable": "t"}) as (connection, _):
        for statement in (
            "CREATE TABLE pairs (id INT, name VARCHAR(9), more INT DEFAULT 7)",
            "INSERT INTO pairs (id, name) VALUES (1, 'a'), (2, NULL)",
        ):
            connection.createStatement().executeUpdate(statement)
    return {
        "table_name": "pairs",
        "driver_class_name": "org.apache.derby.iapi.jdbc.AutoloadedDriver",
        "jdbc_url": url,
        "username": "",
        "password": SECRET,
    }


def rows(spark: Any, given: dict[str, Any], expected: list[Any], **arguments: Any) -> None:
    with beam.Pipeline(SparkRunner(session=spark)) as p:
        found = p | ReadFromJdbc(**{**given, **arguments})
        assert_that(found | beam.Map(tuple), equal_to(expected))


@pytest.mark.part(5)
@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"query": "SELECT * FROM pairs WHERE id = 1 OR id > 1 -- all\n;"},
        {"fetch_size": 1, "output_parallelization": True, "disable_autocommit": True},
        {"partition_column": "id", "partitions": 9, "max_connections": 2},
        {"connection_properties": "a=b; c ", "max_connections": -1},
        {"driver_jars": "/no/such/file.jar", "classpath": ["no.such:package:1"]},
    ],
)
def test_rows_are_the_same_however_they_are_read(
    spark: Any, derby: dict[str, Any], arguments: dict[str, Any]
) -> None:
    """Archives are only looked for if the session lacks the driver."""
    rows(spark, derby, [(1, "a", 7), (2, None, 7)], **arguments)


def test_fields_are_written_by_position_and_a_column_without_one_has_its_default(
    spark: Any, derby: dict[str, Any]
) -> None:
    with beam.Pipeline(SparkRunner(session=spark)) as p:
        pairs = p | beam.Create([Pair(3, "c"), Pair(4, "d")]).with_output_types(Pair)
        _ = pairs | WriteToJdbc(**derby, write_batch_size=1, max_connections=1, autosharding=True)
    rows(spark, derby, [(1, "a", 7), (2, None, 7), (3, "c", 7), (4, "d", 7)])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"table_name": "nothing"}, "'Read': Spark cannot read the table 'nothing': .*'NOTHING'"),
        ({"table_name": "nothing"}, "Correct the name of the table"),
        (
            {"query": 'SELECT id AS "a b" FROM pairs'},
            "^'Read/Read': A column cannot be an attribute of a row: .*'a b'.* Read a query",
        ),
        ({"partition_column": "id2"}, "partition_column='id2': column not found. Use one of ID"),
        (
            {"partition_column": "name"},
            "'name' is of type (varchar|string).*: choose another column",
        ),
        ({"schema": Pair}, r"schema has 2 fields \(key, value\), but the rows have 3 columns"),
        (
            {"connection_init_sqls": ["a", "b"]},
            "connection_init_sqls has 2 statements, but a connection to 'derby' accepts only one",
        ),
        (
            {"driver_class_name": "no.such.Driver", "driver_jars": "/no/such.jar"},
            "driver_jars='/no/such.jar': the file does not exist",
        ),
        ({"driver_class_name": "no.such.Driver"}, "ClassNotFoundException: no.such.Driver"),
    ],
)
def test_what_cannot_be_read_is_an_error_with_label_and_argument(
    spark: Any, derby: dict[str, Any], arguments: dict[str, Any], message: str
) -> None:
    p = beam.Pipeline(SparkRunner(session=spark))
    with pytest.raises(ConfigurationError, match=message) as caught:
        _ = p | "Read" >> ReadFromJdbc(**{**derby, **arguments})
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "row", "table", "message"),
    [
        (Pair, Pair(1, "a"), "nothing", "'NOTHING' does not exist"),
        (Pair, Pair(1, "longer than nine"), "pairs", "truncation error.*Correct the rows, or"),
        (
            Wide,
            Wide(1, 2, 3, 4),
            "pairs",
            r"the rows have 4 fields \(a, b, c, d\), but the table 'pairs' has 3 columns",
        ),
    ],
)
def test_what_cannot_be_written_is_an_error_with_label_and_cause(
    spark: Any, derby: dict[str, Any], kind: Any, row: Any, table: str, message: str
) -> None:
    p = beam.Pipeline(SparkRunner(session=spark))
    elements = p | beam.Create([kind(*row)]).with_output_types(kind)
    _ = elements | "Store" >> WriteToJdbc(**{**derby, "table_name": table})
    with pytest.raises(PipelineFailed, match=rf"'Store'.*{message}") as caught:
        p.run().wait_until_finish()
    assert SECRET not in str(caught.value)


def test_a_plan_shows_no_secret(spark: Any, derby: dict[str, Any]) -> None:
    runner = SparkRunner(session=spark)
    p = beam.Pipeline(runner)
    found = p | ReadFromJdbc(**{**derby, "query": f"SELECT * FROM pairs WHERE name = '{SECRET}'"})
    _ = found | WriteToJdbc(**derby)
    explained = runner.explain(p)
    assert "ReadFromJdbc" in str(explained)
    assert SECRET not in str(explained)


@pytest.mark.long("half a minute; a stream that fails reads one too")
def test_a_stream_reads_a_table_once_at_its_start(
    spark: Any, derby: dict[str, Any], tmp_path: Path
) -> None:
    checkpoint = f"--checkpoint_location={tmp_path}/checkpoint"

    def run() -> list[Any]:
        with beam.Pipeline(
            SparkRunner(session=spark), PipelineOptions(["--streaming", checkpoint])
        ) as p:
            pairs = p | "Read" >> ReadFromJdbc(**derby)
            names = beam.pvalue.AsDict(pairs | beam.Map(lambda row: (row.ID, row.NAME)))
            named = p | beam.Create([1, 2]) | beam.Map(lambda n, names: names[n], names)
            counted = pairs | beam.GroupBy("MORE").aggregate_field("ID", sum, "ids")
            _ = (
                named
                | "Names" >> beam.combiners.ToList()
                | "All" >> beam.Map(_noted, tmp_path / "1")
            )
            _ = counted | "Sums" >> beam.Map(_noted, tmp_path / "2")
        return [(tmp_path / name).read_text() for name in "12"]

    assert run() == ["['a', None]", "[7, 3]"]
    with jdbc_connection(spark, {"url": derby["jdbc_url"], "dbtable": "t"}) as (connection, _):
        connection.createStatement().executeUpdate("INSERT INTO pairs (id) VALUES (3)")
    assert run() == ["['a', None]", "[7, 3]"]


def test_a_stream_reads_no_row_and_tells_of_a_row_that_fails(
    spark: Any, derby: dict[str, Any]
) -> None:
    with beam.Pipeline(SparkRunner(session=spark), PipelineOptions(["--streaming"])) as p:
        none = p | ReadFromJdbc(**{**derby, "query": "SELECT * FROM pairs WHERE id > 9"})
        assert_that(none, equal_to([]))
    wrong = beam.Pipeline(SparkRunner(session=spark), PipelineOptions(["--streaming"]))
    with pytest.raises(ConfigurationError, match=r"'Read/Read': Spark cannot read the table") as it:
        _ = wrong | "Read" >> ReadFromJdbc(
            **{**derby, "query": "SELECT 1 / (id - 1) AS n FROM pairs"}
        )
    assert SECRET not in str(it.value)


def _noted(values: Any, path: Path) -> None:
    path.write_text(str([*values]))


def test_a_stream_refuses_a_large_table(
    spark: Any, derby: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_reads, "_MOST_BYTES", 8)
    p = beam.Pipeline(SparkRunner(session=spark), PipelineOptions(["--streaming"]))
    with pytest.raises(ConfigurationError, match=r"'Read/Read': The table has .*driver"):
        _ = p | "Read" >> ReadFromJdbc(**derby)


def test_a_wrong_password_appears_nowhere(
    spark: Any,
    postgresql: Sql,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    given = {**postgresql.server.arguments(), "password": SECRET}
    with pytest.raises(ConfigurationError, match="password authentication failed") as read:
        _ = beam.Pipeline(SparkRunner(session=spark)) | ReadFromJdbc("t", **given)
    p = beam.Pipeline(SparkRunner(session=spark))
    _ = p | beam.Create([Pair(1, "a")]).with_output_types(Pair) | WriteToJdbc("t", **given)
    with pytest.raises(PipelineFailed, match="password authentication failed") as write:
        p.run().wait_until_finish()
    told = capfd.readouterr()
    for text in (str(read.value), str(write.value), caplog.text, told.out, told.err):
        assert SECRET not in text


def test_the_program_of_the_page_runs(
    postgresql: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgresql("CREATE TABLE orders (id INT, city TEXT, amount INT)")
    postgresql("INSERT INTO orders VALUES (1, 'Bonn', 3), (2, 'Bonn', 4), (3, 'Ulm', 5)")
    postgresql("CREATE TABLE totals (city TEXT, total BIGINT)")
    monkeypatch.setenv("SHOP_PASSWORD", postgresql.server.password)
    places = {"jdbc:postgresql://localhost:5432/shop": postgresql.server.url}
    page_programs.run("jdbc", tmp_path, monkeypatch, [], places)
    assert sorted(postgresql.rows("SELECT * FROM totals")) == [("Bonn", "7"), ("Ulm", "5")]


class Refused(NamedTuple):
    """A row of any values."""

    id: int | None
    name: str | None
    ratio: float | None


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([Refused(1, f"{SECRET}\0", 0)], "field 'name' has the character NUL, which .* 'name' of"),
        ([Refused(1 << 40, SECRET, 0)], "field 'id' does not fit the column 'id' of type int"),
        ([Refused(None, SECRET, 0)], 'null value in column "id" .* violates not-null constraint'),
        ([Refused(1, SECRET, 0)] * 2, 'duplicate key .* unique constraint "refusing_id_key"'),
        ([Refused(1, SECRET * 3, 0)], r"value too long for type character varying\(50\)"),
        ([Refused(1, SECRET, -1)], 'violates check constraint "refusing_ratio_check"'),
    ],
)
def test_a_row_that_is_refused_has_names_and_none_of_its_values(
    spark: Any,
    postgresql: Sql,
    rows: list[Any],
    message: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    postgresql("DROP TABLE IF EXISTS refusing")
    postgresql(
        "CREATE TABLE refusing (id int NOT NULL UNIQUE, name varchar(50), "
        "ratio float8 CHECK (ratio >= 0))"
    )
    p = beam.Pipeline(SparkRunner(session=spark))
    elements = p | beam.Create(rows).with_output_types(Refused)
    _ = elements | "Store" >> WriteToJdbc("refusing", **postgresql.server.arguments())
    with pytest.raises(PipelineFailed, match=f"'Store' failed.*{message}") as caught:
        p.run().wait_until_finish()
    told = capfd.readouterr()
    for text in (str(caught.value), str(caught.value.__cause__), told.out, told.err):
        assert SECRET not in text


def test_a_number_that_mariadb_lacks_is_refused_by_name(spark: Any, mariadb: Sql) -> None:
    mariadb("CREATE TABLE refusing (id int, name text, ratio double)")
    for value in (float("nan"), float("inf")):
        p = beam.Pipeline(SparkRunner(session=spark))
        elements = p | beam.Create([Refused(1, SECRET, value)]).with_output_types(Refused)
        _ = elements | "Store" >> WriteToJdbc("refusing", **mariadb.server.arguments())
        with pytest.raises(PipelineFailed, match="field 'ratio' is infinite or not a number") as it:
            p.run().wait_until_finish()
        assert SECRET not in str(it.value)


@pytest.mark.parametrize("streaming", [False, True])
def test_a_first_statement_that_is_refused_is_an_error_without_its_text(
    spark: Any, postgresql: Sql, streaming: bool
) -> None:
    statements = ["SELECT 1", f"SET my.secret TO '{SECRET}' {SECRET}"]
    options = PipelineOptions(["--streaming"] * streaming)
    message = r"'Read': .*connection_init_sqls: statement 2 of 2 is refused \(SQLSTATE 42601\)"
    with pytest.raises(ConfigurationError, match=message) as caught:
        _ = beam.Pipeline(SparkRunner(session=spark), options) | "Read" >> ReadFromJdbc(
            "",
            query="SELECT 1 AS one",
            connection_init_sqls=statements,
            **postgresql.server.arguments(),
        )
    assert SECRET not in str(caught.value)


def test_statements_of_a_connection_are_run_before_it_reads(spark: Any, postgresql: Sql) -> None:
    postgresql("CREATE TABLE settings AS SELECT 1 AS one")
    query = "SELECT current_setting('my.a', true) || current_setting('my.b', true) AS both"
    rows(
        spark,
        {"table_name": "", **postgresql.server.arguments()},
        [("12",)],
        query=query,
        connection_init_sqls=["SET my.a = '1';", "SET my.b = '2'"],
    )
