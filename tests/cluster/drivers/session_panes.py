"""Sessions with early and late firings of two streams, joined, into a Delta table.

Each number comes once or twice; a deduplication lets it through once. Some are late: behind the
watermark, but within the allowed lateness. Sessions of a user fire early and late and discard what
they have fired, so each number is in exactly one pane, whatever the panes are: they depend on when
what comes. The panes of two streams meet in a CoGroupByKey. A number that is lost or processed
twice shows in the output.

The jars of Delta Lake are for a Spark that :data:`OPTIONS` name.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow.parquet as pq
from apache_beam.transforms.deduplicate import DeduplicatePerKey
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark
from apache_beam.transforms.window import GlobalWindows, Sessions
from apache_beam.utils.timestamp import Duration
from paced import Numbers, in_order_ms, run

from sparkbeam.io import WriteToSpark

USERS = 20
LATE, LATE_MS = 11, 3000
GAP_SECONDS = 1
FOREVER_SECONDS = 86_400
COLUMNS = ("user", "stream", "number")
SCHEMA = "user bigint, stream string, number bigint"
OPTIONS = (
    "--spark_conf=spark.jars.packages=io.delta:delta-spark_4.2_2.13:4.4.0",
    "--spark_conf=spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension",
    "--spark_conf=spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog",
)


def time_ms(number: int) -> int:
    """When a number happens."""
    return in_order_ms(number) - (0 if number % LATE else LATE_MS)


def user(number: int) -> int:
    """Whose number it is; some users have pauses between their sessions."""
    return number // 50 * 7919 % USERS


def stream(number: int) -> str:
    """Which of the two streams it belongs to."""
    return "bids" if number % 3 else "visits"


def expected(events: int) -> Counter[tuple[Any, ...]]:
    """The rows of the output, and how often they are there."""
    return Counter((user(number), stream(number), number) for number in range(events))


def by_user(number: int) -> tuple[int, int]:
    """A number with its user."""
    return user(number), number


def rows(pane: tuple[int, dict[str, Iterable[int]]]) -> Iterator[dict[str, Any]]:
    """The rows of a pane."""
    key, streams = pane
    for name, numbers in streams.items():
        for number in numbers:
            yield dict(zip(COLUMNS, (key, name, number), strict=True))


def build(pipeline: beam.Pipeline, events: int, rate: float, output: str) -> None:
    """The pipeline."""
    numbers = (
        pipeline
        | "Events" >> Numbers(events, rate, time_ms)
        | "By number" >> beam.Map(lambda number: (number, None)).with_output_types(tuple[int, None])
        | "Once" >> DeduplicatePerKey(event_time_duration=Duration(FOREVER_SECONDS))
        | "Number" >> beam.Keys().with_output_types(int)
        | "Sessions"
        >> beam.WindowInto(
            Sessions(GAP_SECONDS),
            trigger=AfterWatermark(early=AfterCount(3), late=AfterCount(1)),
            accumulation_mode=AccumulationMode.DISCARDING,
            allowed_lateness=FOREVER_SECONDS,
        )
    )
    streams = {
        name: numbers
        | f"Only {name}" >> beam.Filter(lambda number, name=name: stream(number) == name)
        | f"Key {name}" >> beam.Map(by_user).with_output_types(tuple[int, int])
        for name in ("bids", "visits")
    }
    _ = (
        streams
        | "Together" >> beam.CoGroupByKey()
        | "All windows" >> beam.WindowInto(GlobalWindows())
        | "Rows" >> beam.FlatMap(rows)
        | WriteToSpark("delta", {"path": output}, SCHEMA)
    )


def written(output: Path) -> Counter[tuple[Any, ...]]:
    """The rows of the table, and how often they are there."""
    found: Counter[tuple[Any, ...]] = Counter()
    for entry in sorted((output / "_delta_log").glob("*.json")):
        for action in map(json.loads, entry.read_text().splitlines()):
            if "add" in action:
                table = pq.read_table(output / action["add"]["path"], columns=list(COLUMNS))
                found.update(zip(*table.to_pydict().values(), strict=True))
    return found


if __name__ == "__main__":
    run(build)
