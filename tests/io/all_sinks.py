"""Sinks of rows by their names, which a test or a program writes and reads."""

from datetime import datetime
from pathlib import Path
from typing import Any

import apache_beam as beam
import streams
from pyspark.sql import Row

from sparkbeam import SparkRunner, as_dataframe
from sparkbeam.io import ForeachBatch, WriteToSpark


class Sinks:
    """Sinks by their names; each takes elements and a schema, and returns what it has written."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self._spark = spark
        self._folder = folder

    def _batch(self, elements: list[Any], sink: Any) -> None:
        with beam.Pipeline(SparkRunner(self._spark)) as pipeline:
            _ = _made(pipeline, elements) | "Store" >> sink

    def _stream(self, elements: list[Any], sink: Any) -> None:
        def build(pipeline: beam.Pipeline) -> None:
            _ = _made(pipeline, elements) | "Store" >> sink

        streams.run_to_the_end(self._spark, self._folder / "checkpoint", build)

    def _files(self, schema: Any) -> WriteToSpark:
        return WriteToSpark("parquet", {"path": self._folder / "out"}, schema)

    def _function(self, schema: Any) -> ForeachBatch:
        path = str(self._folder / "out")
        return ForeachBatch(lambda frame, _: frame.write.mode("append").parquet(path), schema)

    def _found(self) -> Any:
        return self._spark.read.parquet(str(self._folder / "out"))

    def files(self, elements: list[Any], schema: Any) -> Any:
        self._batch(elements, self._files(schema))
        return self._found()

    def function(self, elements: list[Any], schema: Any) -> Any:
        self._batch(elements, self._function(schema))
        return self._found()

    def stream(self, elements: list[Any], schema: Any) -> Any:
        self._stream(elements, self._files(schema))
        return self._found()

    def stream_function(self, elements: list[Any], schema: Any) -> Any:
        self._stream(elements, self._function(schema))
        return self._found()

    def dataframe(self, elements: list[Any], schema: Any) -> Any:
        made = _made(beam.Pipeline(SparkRunner(self._spark)), elements)
        frame = as_dataframe(made, schema)
        return self._spark.createDataFrame(frame.collect(), frame.schema)

    def table(self, elements: list[Any], schema: Any) -> Any:
        name = f"written_{self._folder.name}"
        self._spark.sql(f"DROP TABLE IF EXISTS {name}")
        self._batch(elements, WriteToSpark(table=name, schema=schema))
        return self._spark.table(name)

    def jdbc(self, elements: list[Any], schema: Any) -> Any:
        url = f"jdbc:derby:memory:{self._folder.name};create=true"
        options = {"url": url, "dbtable": "written"}
        self._batch(elements, WriteToSpark("jdbc", options, schema))
        return self._spark.read.format("jdbc").options(**options).load()


def _made(pipeline: beam.Pipeline, elements: list[Any]) -> Any:
    """Return elements that no coder has had."""
    return pipeline | beam.Create(range(len(elements))) | beam.Map(lambda n: elements[n])


def plain(value: Any) -> Any:
    """Return a value as Spark's rows have it; instants are in the time zone of the machine."""
    if isinstance(value, Row):
        return plain(value.asDict())
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return [*map(plain, value)]
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone().replace(tzinfo=None)
    return bytes(value) if isinstance(value, bytearray) else value
