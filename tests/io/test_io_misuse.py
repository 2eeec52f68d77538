"""Wrong uses of sources, sinks and DataFrames over a session, in the table beside this module."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import apache_beam as beam
import misuse
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing import test_stream
from streams import pipeline_on

from sparkbeam import as_dataframe
from sparkbeam.io import FromDataFrame, ReadFromSpark, WriteToSpark

SECRET = "correct-horse"


def read(spark: Any, *options: str, **given: Any) -> Any:
    return pipeline_on(spark, *options) | "Read" >> ReadFromSpark(**given)


@pytest.fixture(scope="module")
def names(spark: Any) -> Iterator[dict[str, Any]]:
    """Return the names that the calls use."""
    spark.sql("CREATE DATABASE shop")
    spark.sql("CREATE TABLE shop.clicks (id BIGINT, day STRING) USING json PARTITIONED BY (day)")
    spark.sql("CREATE VIEW shop.mondays AS SELECT * FROM shop.clicks WHERE day = 'mon'")
    stream, table = spark.readStream.format("rate").load(), spark.range(1)
    stream.createOrReplaceTempView("a_stream")
    table.createOrReplaceTempView("a_table")
    p, streaming = pipeline_on(spark), pipeline_on(spark, "--streaming")
    of_another = beam.Pipeline(FnApiRunner())
    yield {
        **{"beam": beam, "as_dataframe": as_dataframe, "FromDataFrame": FromDataFrame},
        **{"TestStream": test_stream.TestStream, "WriteToSpark": WriteToSpark, "SECRET": SECRET},
        **{"p": p, "streaming": streaming, "of_another": of_another, "spark": spark},
        **{"stream": stream, "table": table, "read": partial(read, spark)},
        "made": lambda *elements: pipeline_on(spark) | "Made" >> beam.Create(elements),
    }
    assert spark.catalog.tableExists("shop.clicks")
    assert "as_dataframe" not in p.applied_labels
    spark.sql("DROP DATABASE shop CASCADE")


@misuse.table(__file__)
def test_each_error_is_as_in_the_table(call: misuse.Call, names: dict[str, Any]) -> None:
    misuse.check(call, names)
