"""Files of producers of which one is far ahead, on Spark: no row of the others is late."""

from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
import streams
from apache_beam.transforms.window import FixedWindows
from apache_beam.utils.timestamp import Timestamp

from sparkbeam.io import ReadFromSpark

MINUTES = 5
AHEAD = {"near": 0, "ahead": 60}


@pytest.mark.long("20 s each; tests/streaming/test_partitions.py has it in process")
@pytest.mark.parametrize("partition_column", [None, "producer"], ids=["files", "column"])
def test_a_producer_an_hour_ahead_makes_no_row_of_another_late(
    spark: Any, tmp_path: Path, partition_column: str | None
) -> None:
    out, source = tmp_path / "out", tmp_path / "in"
    for minute in range(MINUTES):
        for number, (producer, ahead) in enumerate(AHEAD.items()):
            rows = [
                {"producer": producer, "at": _at(60 * (minute + ahead) + second)}
                for second in range(0, 60, 10)
            ]
            age = 1000 - 10 * minute - number
            streams.write_json(source / f"{minute}-{producer}.json", rows, age)

    def build(pipeline: beam.Pipeline) -> None:
        _ = (
            pipeline
            | ReadFromSpark(
                "json",
                {"path": source, "maxFilesPerTrigger": len(AHEAD)},
                schema="producer string, at timestamp",
                timestamp_column="at",
                partition_column=partition_column,
            )
            | beam.Map(lambda row: (row.producer, 1))
            | beam.WindowInto(FixedWindows(60))
            | beam.CombinePerKey(sum)
            | beam.Map(lambda pair: {"producer": pair[0], "count": pair[1]})
            | streams.to_notes(out, "producer string, count bigint")
        )

    def near() -> list[int]:
        return [count for producer, count in streams.noted_rows(out) if producer == "near"]

    streams.run_until(spark, tmp_path / "checkpoint", build, lambda: len(near()) >= MINUTES - 1)
    assert near()[: MINUTES - 1] == [6] * (MINUTES - 1), "each minute of the one behind is whole"


def _at(second: int) -> str:
    return Timestamp(1_700_000_040 + second).to_rfc3339()
