"""Tables of Iceberg or Delta that ``ddl`` of a query declares, in batch and in a stream.

It prints its findings as JSON.

Usage: sql_tables_program.py TYPE FOLDER
"""

import json
import sys
from pathlib import Path
from typing import Any

import apache_beam as beam
import streams
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.sql import SqlTransform
from table_programs import NO_JAR, settings

from sparkbeam.errors import ConfigurationError
from sparkbeam.io import ForeachBatch, ReadFromSpark
from sparkbeam.upstream.spark import active_session

COLUMNS = "id BIGINT NOT NULL, item VARCHAR, price DECIMAL, `day` DATE, `at` TIMESTAMP, n INTEGER"
ROWS = """
VALUES (1, 'it''s', 1.25, DATE '2024-02-29', TIMESTAMP '2024-01-02 03:04:05.678901', 7),
       (2, NULL, NULL, NULL, NULL, NULL)
"""


def main(kind: str, folder: Path) -> None:
    arguments = ["--spark_master=local[2]", *settings([kind])]
    sales = table(kind, folder, "sales", COLUMNS)
    stream = table(kind, folder, "stream", "n BIGINT, word VARCHAR")
    found: dict[str, Any] = {}

    def batch(query: str, ddl: str, name: str = "") -> None:
        def collect(frame: Any, _: int) -> None:
            rows = sorted(row.text for row in frame.collect())
            (folder / f"{name}.json").write_text(json.dumps(rows))

        with beam.Pipeline("sparkbeam.SparkRunner", PipelineOptions(arguments)) as pipeline:
            rows = pipeline | SqlTransform(query, ddl=ddl)
            if name:
                texts = rows | beam.Map(lambda row: beam.Row(text=str([*map(str, row)])))
                _ = texts | ForeachBatch(collect, "text string")
        if name:
            found[name] = json.loads((folder / f"{name}.json").read_text())

    try:
        batch(f"INSERT INTO sales {ROWS}", sales)
    except ConfigurationError as error:
        print(error, file=sys.stderr)
        sys.exit(NO_JAR)
    spark = active_session()
    batch("INSERT INTO sales (id, n) SELECT id + 2, CAST(price AS INTEGER) FROM sales", sales)
    batch("SELECT * FROM sales", sales, "sales")
    batch("SELECT SUM(price) AS p, COUNT(`day`) AS d, MAX(id) AS i FROM sales", sales, "sums")
    narrow = table(kind, folder, "sales", "n BIGINT, id INTEGER")
    batch("SELECT id, n FROM sales WHERE n > 1", narrow, "narrow")
    try:
        batch("SELECT nothing FROM sales", table(kind, folder, "sales", "nothing BIGINT"))
    except ConfigurationError as error:
        found["missing"] = str(error)

    def build(pipeline: beam.Pipeline) -> None:
        source = {"path": folder / "in", "maxFilesPerTrigger": 1}
        rows = pipeline | ReadFromSpark("json", source, "n bigint")
        query = (
            "INSERT INTO stream SELECT PCOLLECTION.n, s.item FROM PCOLLECTION "
            "LEFT JOIN sales AS s ON PCOLLECTION.n = s.id"
        )
        _ = rows | SqlTransform(query, ddl=f"{sales}; {stream}")

    for number in range(3):
        streams.write_json(folder / "in" / f"{number}.json", [{"n": number}], 9 - number)
    streams.run_available(spark, folder / "checkpoint", build)
    streams.write_json(folder / "in" / "3.json", [{"n": 3}], 1)
    streams.run_available(spark, folder / "checkpoint", build)
    batch("SELECT n, word FROM stream", stream, "stream")
    print(f"\n{json.dumps(found)}")


def table(kind: str, folder: Path, name: str, columns: str) -> str:
    """Returns the statements that declare a table."""
    if kind == "delta":
        return f"CREATE EXTERNAL TABLE {name} ({columns}) TYPE delta LOCATION '{folder}/{name}'"
    catalog = f"'type' = 'hadoop', 'warehouse' = '{folder}/warehouse'"
    return f"""
        CREATE CATALOG IF NOT EXISTS lake TYPE iceberg PROPERTIES ({catalog});
        USE CATALOG lake;
        CREATE EXTERNAL TABLE {name} ({columns}) TYPE iceberg LOCATION 'shop.{name}'
        """


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
