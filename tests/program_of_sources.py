"""Sources and sinks that need no jar, for sessions of every kind.

A session of Spark Connect or of a platform runs them as a classic one does.
"""

import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.internal.cloudpickle import cloudpickle
from apache_beam.io.jdbc import WriteToJdbc
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.sql import SqlTransform
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.timestamp import Timestamp

# Workers cannot import it.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

SALES = [("a", 3, 5), ("b", 4, 15), ("a", 9, 17)]
YAML = """
type: composite
transforms:
  - {type: Create, name: Sales, config: {elements: [{item: a, n: 3}, {item: b, n: 4}]}}
  - {type: Create, name: Items, config: {elements: [{item: a, name: Apple}]}}
  - type: Join
    input: {sales: Sales, items: Items}
    config:
      type: {outer: [sales]}
      equalities: item
      fields: {sales: [n], items: [name]}
  - type: Sql
    input: Join
    config: {query: "SELECT COALESCE(name, '?') AS name, n / 2 AS half FROM PCOLLECTION"}
output: Sql
"""


def run_queries(pipeline: beam.Pipeline) -> None:
    """Runs queries in batch and in windows, and a pipeline of YAML with a join and a query."""
    pytest.importorskip("sqlglot")
    yaml_transform = pytest.importorskip("apache_beam.yaml.yaml_transform")
    ten = "TUMBLE(at, INTERVAL '10' SECOND)"
    with pipeline as p:
        rows = [beam.Row(item=one, price=n, at=Timestamp(at)) for one, n, at in SALES]
        sales = p | beam.Create(rows)
        names = p | "Names" >> beam.Create([beam.Row(item="a", name="Apple")])
        joined = {"sales": sales, "names": names} | SqlTransform(
            "SELECT name, SUM(price) AS total FROM sales JOIN names ON sales.item = names.item "
            "GROUP BY name"
        )
        windowed = sales | "Windows" >> SqlTransform(
            f"SELECT item, SUM(price) AS total FROM PCOLLECTION GROUP BY item, {ten}"
        )
        of_yaml = p | yaml_transform.YamlTransform(YAML)
        assert_that(joined | beam.Map(tuple), equal_to([("Apple", 12)]), "Joined")
        everywhere = windowed | "Plain" >> beam.Map(tuple) | beam.WindowInto(GlobalWindows())
        assert_that(everywhere, equal_to([("a", 3), ("a", 9), ("b", 4)]), "In windows")
        plain = of_yaml | "Of YAML" >> beam.Map(lambda row: (row.name, row.half))
        assert_that(plain, equal_to([("Apple", 1), ("?", 2)]), "In YAML")


def write_files_and_rows(pipeline: beam.Pipeline, folder: Path) -> None:
    """Writes texts, Parquet, and a table of SQLite with a statement of SQL."""
    database = folder / "sales.db"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("CREATE TABLE sales (item TEXT, price INT)")
    with pipeline as p:
        rows = p | beam.Create([beam.Row(item=item, price=price) for item, price, _ in SALES])
        _ = rows | WriteToJdbc(
            "sales",
            "org.sqlite.JDBC",
            f"jdbc:sqlite:{database}",
            "",
            "",
            statement="INSERT INTO sales VALUES (?, 10 * ?)",
        )
        lines = rows | beam.Map(lambda row: f"{row.item} {row.price}")
        _ = lines | beam.io.WriteToText(str(folder / "lines"))
        _ = rows | beam.io.WriteToParquet(str(folder / "rows"))
    with closing(sqlite3.connect(database)) as connection:
        found = connection.execute("SELECT * FROM sales ORDER BY price").fetchall()
    assert found == [(item, 10 * price) for item, price, _ in SALES]


def read_files(pipeline: beam.Pipeline, folder: Path) -> None:
    """Reads the files of :func:`write_files_and_rows`."""
    expected = [(item, price) for item, price, _ in SALES]
    with pipeline as p:
        lines = p | beam.io.ReadFromText(str(folder / "lines*"))
        assert_that(lines, equal_to([f"{item} {price}" for item, price in expected]), "Lines")
        rows = p | beam.io.ReadFromParquet(str(folder / "rows*"))
        pairs = rows | beam.Map(lambda row: (row["item"], row["price"]))
        assert_that(pairs, equal_to(expected), "Rows")
