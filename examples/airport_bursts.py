"""When do departures come in bursts? Session windows over real flights.

Reads flights from Parquet, sessionises the departures of each airport (a burst
ends when nothing has departed for ``--gap_minutes``), counts the flights of
each burst and averages their delays, and writes the busiest bursts to Parquet.

It is an ordinary Beam program: nothing but the default of ``--runner`` knows of
sparkbeam, and every Beam option works on its command line::

    python examples/airport_bursts.py
    python examples/airport_bursts.py --top 3 --gap_minutes 5
    python examples/airport_bursts.py --runner=DirectRunner
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import combiners, window
from apache_beam.utils.timestamp import Duration, Timestamp
from rich.console import Console
from rich.table import Table

SAMPLE = Path(__file__).parent / "data" / "flights-sample.parquet"

BURST = pa.schema(
    [
        ("airport", pa.string()),
        ("first_departure", pa.timestamp("us")),
        ("last_departure", pa.timestamp("us")),
        ("flights", pa.int64()),
        ("mean_delay", pa.float64()),
    ]
)
"""One row of the output; times are local to the airport, delays (on arrival) are in minutes."""


def departures(flights: pa.Table) -> Iterator[window.TimestampedValue]:
    """The ``(origin, delay)`` of each flight, at its time of departure."""
    microseconds = flights["date"].cast(pa.int64()).to_pylist()
    origins, delays = flights["origin"].to_pylist(), flights["delay"].to_pylist()
    for micros, origin, delay in zip(microseconds, origins, delays, strict=True):
        yield window.TimestampedValue((origin, delay), Timestamp(micros=micros))


def to_burst(
    summary: tuple[str, tuple[int, float]], gap: Duration, session: Any = beam.DoFn.WindowParam
) -> dict[str, Any]:
    """A row of the output from an airport's session and its count and mean."""
    airport, (flights, mean_delay) = summary
    return {
        "airport": airport,
        "first_departure": session.start.to_utc_datetime(),
        "last_departure": (session.end - gap).to_utc_datetime(),
        "flights": flights,
        "mean_delay": mean_delay,
    }


def size(burst: dict[str, Any]) -> tuple[Any, ...]:
    """What the bursts are ranked by: the number of flights; ties by time and airport."""
    return burst["flights"], burst["first_departure"], burst["airport"]


def show(path: str) -> None:
    """Prints the Parquet file of bursts as a table."""
    bursts = pq.read_table(path)
    table = Table(title="Busiest departure bursts")
    for column in ("airport", "from", "until", "flights", "mean delay"):
        table.add_column(column, justify="right" if column in ("flights", "mean delay") else "left")
    for burst in bursts.to_pylist():
        table.add_row(
            burst["airport"],
            f"{burst['first_departure']:%Y-%m-%d %H:%M}",
            f"{burst['last_departure']:%Y-%m-%d %H:%M}",
            f"{burst['flights']:,}",
            f"{burst['mean_delay']:+.1f} min",
        )
    console = Console()
    console.print(table)
    console.print(f"Written to {path}", soft_wrap=True)


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the pipeline, then prints what it wrote."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--input", default=str(SAMPLE), help="Parquet files of flights")
    parser.add_argument("--output", default="out/airport-bursts", help="prefix of the output file")
    parser.add_argument("--top", type=int, default=10, help="how many bursts to keep")
    parser.add_argument("--gap_minutes", type=float, default=20, help="the pause that ends a burst")
    parser.add_argument("--runner", default="sparkbeam.SparkRunner")
    arguments, beam_arguments = parser.parse_known_args(argv)
    gap = Duration(seconds=arguments.gap_minutes * 60)

    with beam.Pipeline(arguments.runner, PipelineOptions(beam_arguments)) as pipeline:
        (
            pipeline
            | "Read"
            >> beam.io.ReadFromParquetBatched(arguments.input, columns=["date", "origin", "delay"])
            | "Departures" >> beam.FlatMap(departures).with_output_types(tuple[str, int])
            | "Bursts" >> beam.WindowInto(window.Sessions(gap))
            | "Summary"
            >> beam.CombinePerKey(
                combiners.SingleInputTupleCombineFn(
                    combiners.CountCombineFn(), combiners.MeanCombineFn()
                )
            )
            | "Describe" >> beam.Map(to_burst, gap)
            | "AllTime" >> beam.WindowInto(window.GlobalWindows())
            | "Busiest" >> combiners.Top.Of(arguments.top, key=size)
            | "Each" >> beam.FlatMap(lambda bursts: bursts)
            | "Write"
            >> beam.io.WriteToParquet(
                arguments.output, BURST, file_name_suffix=".parquet", num_shards=1
            )
        )
    show(f"{arguments.output}-00000-of-00001.parquet")


if __name__ == "__main__":
    main()
