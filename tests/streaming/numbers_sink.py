"""A sink that skips a micro-batch that it has: numbers, in a file for each micro-batch."""

from pathlib import Path
from typing import Any

import apache_beam as beam
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


def written(folder: Path) -> list[int]:
    """What has been written, sorted."""
    found = [path.read_text().split() for path in (folder / "sink").iterdir()]
    return sorted(int(number) for numbers in found for number in numbers)
