"""A program whose sink skips a micro-batch that it has: numbers, in a file for each of them."""

from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.window import TimestampedValue
from in_process import Spark, streaming_pipeline
from pyspark.sql.types import LongType, StructField, StructType

from sparkbeam.io import ForeachBatch

_SCHEMA = StructType([StructField("number", LongType())])


def write_numbers(folder: Path) -> beam.PTransform:
    """Writes numbers below a folder."""
    sink = folder / "sink"
    sink.mkdir(exist_ok=True)

    def keep(frame: Any, batch_id: int) -> None:
        path = sink / str(batch_id)
        if not path.exists():
            path.write_text("\n".join(str(row.number) for row in frame.collect()))

    def write(numbers: beam.PCollection) -> Any:
        rows = numbers | "Rows" >> beam.Map(lambda number: {"number": number})
        return rows | "Keep" >> ForeachBatch(keep, _SCHEMA)

    return beam.ptransform_fn(write)()


def start(spark: Spark, folder: Path, numbers: int, seconds: int) -> Any:
    """Starts a program that batches numbers, each in one of some seconds, and writes them."""
    events = TestStream(coder=VarIntCoder())
    for second in range(seconds):
        some = [TimestampedValue(number, second) for number in range(second, numbers, seconds)]
        events = events.add_elements(some).advance_watermark_to(second)
    p = streaming_pipeline(spark, folder / "checkpoint")
    _ = (
        p
        | events.advance_watermark_to_infinity()
        | beam.WithKeys(lambda number: number % 2).with_output_types(tuple[int, int])
        | beam.GroupIntoBatches(5)
        | beam.FlatMapTuple(lambda _, numbers: numbers)
        | write_numbers(folder)
    )
    return p.run()


def written(folder: Path) -> list[int]:
    """What has been written, sorted."""
    found = [path.read_text().split() for path in (folder / "sink").iterdir()]
    return sorted(int(number) for numbers in found for number in numbers)
