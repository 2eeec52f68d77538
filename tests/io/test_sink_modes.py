"""Output modes of sinks on Spark: the console, databases, files."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
import streams
from apache_beam.testing import test_stream
from in_process import Spark, StreamingRunner
from pyspark.sql.types import StructType

from sparkbeam import SparkRunner
from sparkbeam.io import ReadFromSpark, WriteToSpark
from sparkbeam.upstream.spark import jdbc_connection

SCHEMA = StructType().add("name", "string").add("count", "long")
ROWS = [("b", 2), ("a", 1), ("b", 3), ("c\n", None)]


def written(spark: Any, *arguments: Any, rows: Any = ROWS, **more: Any) -> None:
    """Writes rows in batch, each by itself in order."""
    with beam.Pipeline(SparkRunner(spark)) as p:
        _ = (
            p
            | beam.Create([rows])
            | beam.FlatMap(lambda rows: [{"name": name, "count": count} for name, count in rows])
            | "Store" >> WriteToSpark(*arguments, **more)
        )


@pytest.mark.parametrize(
    ("options", "more", "table"),
    [
        (
            {},
            {},
            """\
-------------------------------------------
Batch: 0 (Store)
-------------------------------------------
+----+-----+
|name|count|
+----+-----+
|   b|    2|
|   a|    1|
|   b|    3|
|   c| NULL|
+----+-----+

""",
        ),
        (
            {"numRows": 2, "truncate": False},
            {"output_mode": "update", "key": ["name"], "order_by": ["count DESC"]},
            """\
-------------------------------------------
Batch: 0 (Store)
-------------------------------------------
+----+-----+
|name|count|
+----+-----+
|b   |3    |
|a   |1    |
+----+-----+
only showing top 2 rows
""",
        ),
    ],
    ids=["usual", "chosen"],
)
def test_a_table_says_which_micro_batch_of_which_transform_it_is(
    spark: Any,
    options: dict[str, Any],
    more: dict[str, Any],
    table: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    written(spark, "console", options, SCHEMA, rows=[*ROWS[:3], ("c", None)], **more)
    assert capsys.readouterr().out == table


def test_a_complete_result_has_the_keys_of_earlier_micro_batches(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sparkbeam.streaming.tick_source._MOST_ROUNDS", 1)
    events = test_stream.TestStream().add_elements([("a", 1)]).add_elements([("b", 2)])
    with beam.Pipeline(StreamingRunner(Spark()), argv=[f"--checkpoint_location={tmp_path}"]) as p:
        pairs = p | events.advance_watermark_to_infinity()
        rows = pairs | beam.MapTuple(lambda name, count: {"name": name, "count": count})
        sink = WriteToSpark("console", None, SCHEMA, output_mode="complete", key=["name"])
        _ = rows | "Store" >> sink
    tables = capsys.readouterr().out.split("(Store)\n")[1:]
    assert [re.findall(r"^\(.*\)$", table, re.MULTILINE) for table in tables] == [
        ["('a', 1)"],
        ["('a', 1)", "('b', 2)"],
    ]


@pytest.fixture
def database(spark: Any, tmp_path: Path) -> Iterator[Callable[..., list[Any]]]:
    """Runs SQL over a database of Derby, and gives the rows of a query."""
    options = {"url": f"jdbc:derby:memory:{tmp_path.name};create=true"}
    with jdbc_connection(spark, {**options, "dbtable": "t"}) as (connection, _):

        def run(query: str, *columns: str) -> list[Any]:
            statement = connection.createStatement()
            if not columns:
                statement.executeUpdate(query)
                return []
            found, rows = statement.executeQuery(query), []
            while found.next():
                rows.append(tuple(found.getObject(column) for column in columns))
            return rows

        run.options = options  # type: ignore[attr-defined]
        yield run


class TestJdbc:
    def test_rows_of_a_key_take_each_others_place(
        self, spark: Any, tmp_path: Path, database: Any
    ) -> None:
        """The table has another column, and names in capitals."""
        database("CREATE TABLE counts (name VARCHAR(9) PRIMARY KEY, note INT, count BIGINT)")
        database("INSERT INTO counts VALUES ('a', 7, 70), ('z', 8, 80)")
        source = tmp_path / "in"
        schema = "name string, count bigint, one int"
        files: list[Any] = [ROWS[:3], [("a", 5), ("d d", 6)]]
        for number, rows in enumerate(files):
            content = [{"name": name, "count": count} for name, count in rows]
            streams.write_json(source / f"{number}.json", content, 9 - number)

        def build(p: beam.Pipeline) -> None:
            rows = p | ReadFromSpark("json", {"path": source, "maxFilesPerTrigger": 1}, schema)
            options = {**database.options, "DBTable": "counts"}
            _ = rows | WriteToSpark("jdbc", options, SCHEMA, output_mode="update", key=["name"])

        for _ in range(2):
            streams.run_available(spark, tmp_path / "checkpoint", build)
            streams.rewind(tmp_path / "checkpoint", 1)
        query = "SELECT * FROM counts ORDER BY name"
        expected = [("a", 7, 5), ("b", None, 3), ("d d", None, 6), ("z", 8, 80)]
        assert database(query, "name", "note", "count") == expected
        tables = "SELECT tablename FROM sys.systables WHERE tabletype = 'T'"
        assert database(tables, "tablename") == [("COUNTS",)], "nothing else is left"

    def test_a_table_that_is_not_there_is_made(self, spark: Any, database: Any) -> None:
        types = {"createTableColumnTypes": "name VARCHAR(9)"}
        for rows in (ROWS[:2], ROWS[2:]):
            options = {**database.options, **types, "dbtable": "made"}
            written(spark, "jdbc", options, SCHEMA, output_mode="update", key=["name"], rows=rows)
        found = database('SELECT * FROM made ORDER BY "name"', "name", "count")
        assert found == [("a", 1), ("b", 3), ("c\n", None)]


def test_a_result_in_batch_takes_the_place_of_the_last_one(spark: Any, tmp_path: Path) -> None:
    for rows in (ROWS[:2], ROWS):
        written(
            spark,
            "parquet",
            {"path": tmp_path / "out"},
            SCHEMA,
            output_mode="complete",
            key=["name"],
            rows=rows,
        )
    found = spark.read.parquet(str(tmp_path / "out")).orderBy("name").collect()
    assert [tuple(row) for row in found] == [("a", 1), ("b", 3), ("c\n", None)]
