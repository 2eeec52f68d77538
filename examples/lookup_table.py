"""What are orders worth in euros? A lookup table that is read anew every minute.

Orders come in once a second, in three currencies; the rates are in a file that somebody writes anew
now and then. Each order is converted at the rates that were read last::

    python examples/lookup_table.py
    python examples/lookup_table.py --rates=rates.csv --every=60 --seconds=600
    python examples/lookup_table.py --checkpoint_location=out/checkpoint

Change the file while the program runs: the next time that it is read, the new rates count. Started
again over the same checkpoint, the program goes on with the rates that it has read last.
"""

import argparse
import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pvalue import AsSingleton
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, Repeatedly
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.timestamp import Timestamp

SAMPLE = Path(__file__).parent / "data" / "rates-sample.csv"
CURRENCIES = ("USD", "GBP", "CHF")


class Order(NamedTuple):
    """An amount in a currency."""

    number: int
    currency: str
    amount: float


beam.coders.registry.register_coder(Order, beam.coders.RowCoder)


def read_rates(path: str) -> dict[str, float]:
    """The rates of a file, euros for one of each currency."""
    with Path(path).open(newline="") as lines:
        return {row["currency"]: float(row["euros"]) for row in csv.DictReader(lines)}


class ReadEvery(beam.PTransform):
    """A table that is read at once, and then again and again.

    Args:
        read: reads it.
        every: after so many seconds.
        start: when it is read first.
        stop: when it is read no more.
    """

    def __init__(self, read: Any, every: float, start: Timestamp, stop: Timestamp) -> None:
        super().__init__()
        self._impulses = PeriodicImpulse(start, stop, fire_interval=every)
        self._read = read

    def expand(self, begin: beam.Pipeline) -> beam.PCollection:
        """The tables, of which a side input shows the newest."""
        read = self._read
        return (
            begin
            | self._impulses
            | "Read" >> beam.Map(lambda _: read())
            | "Newest"
            >> beam.WindowInto(
                GlobalWindows(),
                trigger=Repeatedly(AfterCount(1)),
                accumulation_mode=AccumulationMode.DISCARDING,
            )
        )


def order_at(time: Timestamp, start: Timestamp) -> Order:
    """The order that comes in at a time."""
    number = int((Timestamp.of(time).micros - start.micros) // 1_000_000)
    return Order(number, CURRENCIES[number % len(CURRENCIES)], 10.0 * (1 + number % 7))


def in_euros(order: Order, rates: dict[str, float]) -> str:
    """An order, and what it is worth."""
    euros = order.amount * rates[order.currency]
    return f"order {order.number}: {order.amount:.2f} {order.currency} = {euros:.2f} EUR"


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the program.

    Args:
        argv: the arguments; None for those of the process.
    """
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rates", default=str(SAMPLE), help="a file with currency,euros")
    parser.add_argument("--every", type=float, default=60, help="seconds until it is read again")
    parser.add_argument("--seconds", type=float, default=20, help="how long orders come in")
    arguments, others = parser.parse_known_args(argv)

    path = str(Path(arguments.rates).resolve())
    start = Timestamp.now()
    stop = start + arguments.seconds
    options = PipelineOptions(["--runner=sparkbeam.SparkRunner", *others], streaming=True)
    with beam.Pipeline(options=options) as pipeline:
        rates = pipeline | "Rates" >> ReadEvery(
            lambda: read_rates(path), arguments.every, start, stop
        )
        orders = (
            pipeline
            | "Ticks" >> PeriodicImpulse(start, stop, fire_interval=1)
            | "Orders" >> beam.Map(order_at, start)
        )
        _ = orders | "Convert" >> beam.Map(in_euros, AsSingleton(rates)) | "Show" >> beam.Map(print)


if __name__ == "__main__":
    main()
