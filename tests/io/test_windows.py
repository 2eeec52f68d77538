"""Spark's sources in a streaming query: event time, watermarks, windows."""

from pathlib import Path
from typing import Any

import apache_beam as beam
import streams
from apache_beam.transforms.window import FixedWindows

from sparkbeam.io import ReadFromSpark

START_MILLIS = 1_700_000_000_000
RATE = {
    "rowsPerBatch": 100,
    "numPartitions": 2,
    "startTimestamp": START_MILLIS,
    "advanceMillisPerBatch": 5000,
}


def test_windows_of_a_source_end_as_its_rows_go_on(spark: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"

    def build(pipeline: beam.Pipeline) -> None:
        _ = (
            pipeline
            | ReadFromSpark("rate-micro-batch", RATE, timestamp_column="timestamp")
            | beam.Map(lambda row: (row.value % 2, 1))
            | beam.WindowInto(FixedWindows(10))
            | beam.CombinePerKey(sum)
            | beam.Map(
                lambda pair, window=beam.DoFn.WindowParam: {
                    "end": int(window.end),
                    "key": pair[0],
                    "count": pair[1],
                }
            )
            | streams.to_notes(out, "end bigint, key bigint, count bigint")
        )

    shown: set[str] = set()

    def is_enough() -> bool:
        progress = [query.lastProgress for query in spark.streams.active]
        shown.update(one.eventTime["watermark"] for one in progress if one)
        return len(streams.noted_rows(out)) >= 4

    streams.run_until(spark, tmp_path / "checkpoint", build, is_enough)
    # Spark's own page has the watermark.
    assert any(text.startswith("2023-11-14T22:13:") for text in shown)
    sums = streams.noted_rows(out)
    assert sorted(sums[: len(sums) // 2 * 2]) == [
        [START_MILLIS // 1000 + 10 * (number + 1), key, 100]
        for number in range(len(sums) // 2)
        for key in range(2)
    ]


def test_elements_without_a_time_column_have_the_time_of_their_micro_batch(
    spark: Any, tmp_path: Path
) -> None:
    out, source = tmp_path / "out", tmp_path / "in"
    streams.write_json(source / "a.json", [{"id": 1}, {"id": 2}])

    def build(pipeline: beam.Pipeline) -> None:
        _ = (
            pipeline
            | ReadFromSpark("json", {"path": source}, schema="id bigint")
            | beam.Map(lambda row: ("all", row.id))
            | beam.WindowInto(FixedWindows(1))
            | beam.CombinePerKey(sum)
            | beam.Map(lambda pair: {"count": pair[1]})
            | streams.to_notes(out, "count bigint")
        )

    # No row comes after these: the clock alone ends the window.
    streams.run_until(spark, tmp_path / "checkpoint", build, lambda: bool(streams.noted_rows(out)))
    assert streams.noted_rows(out) == [[3]]
