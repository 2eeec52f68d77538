"""Is a plane later on the way back? A join of the flights of each route with those of its return.

Averages the delays of each route by day, joins each route with the one in the other direction, and
prints the pairs that are furthest apart::

    python examples/return_flights.py
    python examples/return_flights.py --streaming --top=3
    python examples/return_flights.py --runner=DirectRunner

On sparkbeam in batch Spark joins the two sides; in streaming, and on other runners, the join is a
GroupByKey, and finds the same.
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import combiners, window
from apache_beam.utils.timestamp import Timestamp
from rich.console import Console
from rich.table import Table

from sparkbeam import Join

SAMPLE = Path(__file__).parent / "data" / "flights-sample.parquet"
COLUMNS = "origin", "destination", "delay"
DAY = 24 * 60 * 60


class Route(NamedTuple):
    """The flights of a day from an airport to another one, and their mean delay in minutes."""

    origin: str
    destination: str
    flights: int
    delay: float


def departures(flights: pa.Table) -> Iterator[window.TimestampedValue]:
    """A pair of ``(origin, destination)`` and the delay of each flight, at its departure."""
    microseconds = flights["date"].cast(pa.int64()).to_pylist()
    columns = (flights[name].to_pylist() for name in COLUMNS)
    for micros, origin, destination, delay in zip(microseconds, *columns, strict=True):
        yield window.TimestampedValue(((origin, destination), delay), Timestamp(micros=micros))


def to_route(summary: tuple[tuple[str, str], tuple[int, float]]) -> Route:
    """The flights of a route on a day."""
    (origin, destination), (flights, delay) = summary
    return Route(origin, destination, flights, delay)


def compare(
    airports: tuple[str, str], out: Route, back: Route, day: Any = beam.DoFn.WindowParam
) -> dict[str, Any]:
    """A route with its return, and how much later the return is."""
    return {
        "day": day.start.to_utc_datetime(),
        "route": " - ".join(airports),
        "flights": (out.flights, back.flights),
        "out": out.delay,
        "back": back.delay,
        "later": back.delay - out.delay,
    }


def build(pipeline: beam.Pipeline, flights: str, fewest: int) -> Any:
    """Flights from Parquet files into pairs of routes, by day."""
    routes = (
        pipeline
        | "Read" >> beam.io.ReadFromParquetBatched(flights, columns=["date", *COLUMNS])
        | "Departures" >> beam.FlatMap(departures).with_output_types(tuple[tuple[str, str], int])
        | "Days" >> beam.WindowInto(window.FixedWindows(DAY))
        | "Summary"
        >> beam.CombinePerKey(
            combiners.SingleInputTupleCombineFn(
                combiners.CountCombineFn(), combiners.MeanCombineFn()
            )
        )
        | "Route" >> beam.Map(to_route)
        | "Often" >> beam.Filter(lambda route: route.flights >= fewest)
    )
    return (
        {"out": routes, "back": routes}
        | Join(
            on={
                "out": lambda route: (route.origin, route.destination),
                "back": lambda route: (route.destination, route.origin),
            },
            result=lambda airports, out, back: (airports, out, back),
        )
        | "Compare" >> beam.MapTuple(compare)
    )


def show(pairs: list[dict[str, Any]]) -> None:
    """Prints pairs of routes as a table."""
    table = Table(title="Later on the way back")
    for column in ("day", "route", "flights", "out", "back", "later"):
        table.add_column(column, justify="left" if column in ("day", "route") else "right")
    for pair in pairs:
        delays = (f"{pair[name]:+.1f} min" for name in ("out", "back", "later"))
        flights = "{} / {}".format(*pair["flights"])
        table.add_row(f"{pair['day']:%Y-%m-%d}", pair["route"], flights, *delays)
    Console().print(table)


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the pipeline, which prints what it has found."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--input", default=str(SAMPLE), help="Parquet files of flights")
    parser.add_argument("--top", type=int, default=10, help="how many pairs of routes to print")
    parser.add_argument("--fewest", type=int, default=3, help="flights of a route that are enough")
    parser.add_argument("--runner", default="sparkbeam.SparkRunner")
    arguments, beam_arguments = parser.parse_known_args(argv)
    with beam.Pipeline(arguments.runner, PipelineOptions(beam_arguments)) as pipeline:
        (
            build(pipeline, arguments.input, arguments.fewest)
            | "All days" >> beam.WindowInto(window.GlobalWindows())
            | "Latest"
            >> combiners.Top.Of(arguments.top, key=lambda pair: (pair["later"], pair["route"]))
            | "Show" >> beam.Map(show)
        )


if __name__ == "__main__":
    main()
