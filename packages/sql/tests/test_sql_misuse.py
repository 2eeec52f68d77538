"""Wrong queries and functions of SQL, in the table beside this module."""

from typing import Any

import apache_beam as beam
import misuse
import pytest
from apache_beam.transforms.sql import SqlTransform
from apache_beam.transforms.window import FixedWindows, GlobalWindows
from in_process_batch import BatchRunner

from sparkbeam import SparkRunner

pytest.importorskip("sqlglot")

from test_calcite import TABLES
from test_sql_functions import FUNCTIONS, half, rows, twice
from test_sql_in_windows import TEN, clicks, stream
from test_sql_results import CLICKS, RELATIONS, Click, Mixed

from sparkbeam_sql import with_sql_dead_letters, with_sql_functions
from sparkbeam_sql.calcite import parse


def bare(n):
    return n


def listed(n: int) -> list[int]:
    return [n]


def many(*n: int) -> int:
    return sum(n)


COLUMNS = {
    "PCOLLECTION": {
        "id": "bigint",
        "s": "string",
        "f": "double",
        "ts": "timestamp_ntz",
        "rs": "array<struct<x: bigint, y: string>>",
    }
}


def spark_sql(query: str) -> str:
    return parse(query, COLUMNS).spark_sql(COLUMNS)


def of_clicks(query: SqlTransform) -> Any:
    return clicks(beam.Pipeline(BatchRunner())) | "Query" >> query


def in_windows(query: str) -> Any:
    return clicks(beam.Pipeline(BatchRunner()), FixedWindows(10)) | "Query" >> SqlTransform(query)


def in_a_stream(query: str) -> Any:
    pipeline = beam.Pipeline(BatchRunner(), argv=["--streaming"])
    clicks = pipeline | stream([(5, CLICKS[0])]).with_output_types(Click)
    return clicks | "Query" >> SqlTransform(query)


def handling_errors(kind: str, config: str) -> Any:
    """A transform of Beam YAML with dead letters."""
    step = f"{{type: {kind}, config: {{{config}, error_handling: {{output: bad}}}}}}"
    rows = beam.Pipeline(SparkRunner()) | beam.Create([beam.Row(a=0)])
    return rows | pytest.importorskip("apache_beam.yaml.yaml_transform").YamlTransform(step)


def expression(text: str) -> Any:
    given = beam.Pipeline(BatchRunner()) | beam.Create(RELATIONS["mixed"]).with_output_types(Mixed)
    query = SqlTransform(f"SELECT {text} AS x FROM PCOLLECTION")
    return given | beam.WindowInto(FixedWindows(1)) | "Query" >> query


def calling(query: str, windows: Any) -> Any:
    """Query in windows with functions in Python."""
    given = rows(beam.Pipeline(BatchRunner())) | beam.WindowInto(windows)
    return given | "Query" >> with_sql_functions(SqlTransform(query), **FUNCTIONS)


@misuse.table(__file__)
def test_a_wrong_call_is_an_error(call: misuse.Call) -> None:
    misuse.check(call, globals())
