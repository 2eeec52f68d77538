"""Expressions of queries in windows are computed over columns, or for each row."""

from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.transforms.sql import SqlTransform
from apache_beam.transforms.window import FixedWindows

from sparkbeam import SparkRunner
from sparkbeam.io import ReadFromSpark
from sparkbeam_sql import with_sql_functions

pytest.importorskip("sqlglot")


OVER_COLUMNS = [
    "CHAR_LENGTH(s), CONCAT(s, 'x'), LOWER(s), POSITION('b' IN s), REPLACE(s, 'a', 'b'), TRIM(s)",
    "SUBSTRING(s FROM 2), UPPER(s), s || 'x', s LIKE 'a%', s LIKE '%a', s LIKE '%a%', s LIKE 'a'",
    "ABS(i), CEIL(f), FLOOR(f), MOD(i, 3), SQRT(f), NULLIF(i, 3), COALESCE(i, id), i / 2",
    "TIMESTAMPADD(DAY, 1, t), TIMESTAMPDIFF(DAY, t, t), t + INTERVAL '1' HOUR",
    "i IS DISTINCT FROM id, CASE WHEN i > 1 THEN 2 END, CAST(i AS DOUBLE), plus(i)",
]
FOR_EACH_ROW = [
    *("REPLACE(s, s, 'x')", "s LIKE 'a_b'", "s SIMILAR TO 'a|b'", "EXP(f)", "POWER(f, 2)"),
    *("ROUND(f, 1)", "EXTRACT(HOUR FROM t)", "YEAR(t)", "FLOOR(t TO HOUR)", "CEIL(t TO DAY)"),
]
SCHEMA = "id bigint not null, i bigint, f double not null, s string, t timestamp not null"


def plus(n: int) -> int:
    return n + 1


def planned(spark: Any, folder: Path, expressions: str) -> str:
    """Return how the selection of a query over columns is run."""
    path = str(folder / "rows")
    spark.createDataFrame([], SCHEMA).write.parquet(path)
    runner = SparkRunner(spark)
    pipeline = beam.Pipeline(runner=runner)
    rows = pipeline | ReadFromSpark("parquet", {"path": path}, SCHEMA)
    query = SqlTransform(f"SELECT {expressions} FROM PCOLLECTION")
    _ = rows | beam.WindowInto(FixedWindows(1)) | with_sql_functions(query, plus=plus)
    (line,) = [line for line in runner.explain(pipeline).stages.splitlines() if "Select" in line]
    return line


@pytest.mark.parametrize("expressions", OVER_COLUMNS)
def test_expressions_are_computed_over_columns(
    spark: Any, tmp_path: Path, expressions: str
) -> None:
    assert planned(spark, tmp_path, expressions).endswith(": columns")


@pytest.mark.part(3)
@pytest.mark.parametrize("expression", FOR_EACH_ROW)
def test_expressions_are_computed_for_each_row(spark: Any, tmp_path: Path, expression: str) -> None:
    assert ": elements, because it calls" in planned(spark, tmp_path, expression)
