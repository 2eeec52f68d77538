"""The session on which a pipeline runs that is given none, behind a stream in the same program."""

from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.test_stream import TestStream
from pyspark.sql import SparkSession

from sparkbeam.io import ForeachBatch
from sparkbeam.options.spark_options import SparkBeamOptions
from sparkbeam.spark import session as sessions


def test_frames_that_a_micro_batch_makes_leave_the_active_session_alone(spark: Any) -> None:
    seen: list[Any] = []

    def make(frame: Any, number: int) -> None:
        made = frame.sparkSession.createDataFrame([(number,)], "number int")
        seen.append(made.sparkSession._jsparkSession)

    spark.createDataFrame([], "number int")
    events = TestStream().add_elements([beam.Row(number=1)]).advance_watermark_to_infinity()
    with beam.Pipeline("sparkbeam.SparkRunner", PipelineOptions(["--streaming"])) as p:
        p | events | ForeachBatch(make, "number int")
    try:
        active: Any = SparkSession.getActiveSession()
        assert not active._jsparkSession.equals(spark._jsparkSession)
        found: Any = sessions.obtain(SparkBeamOptions([]))
        assert found._jsparkSession.equals(spark._jsparkSession)
    finally:
        spark.createDataFrame([], "number int")
