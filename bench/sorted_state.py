"""Sorted state beside bags.

Run with ``python bench/sorted_state.py``. Trades of one key are joined with as many quotes, by a
DoFn with bags, one with sorted multimaps, and by ``AsOfJoin``. Bags give up after ``--limit``
seconds, and tell what they would have taken.
"""

import argparse
import logging
import random
import sys
import tempfile
import time
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.coders import coders
from apache_beam.metrics import Metrics, MetricsFilter
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import BagStateSpec, TimerSpec, on_timer
from apache_beam.transforms.window import TimestampedValue
from places import session_on
from pyspark import cloudpickle
from rich.console import Console
from rich.table import Table

from sparkbeam import AsOfJoin, SparkRunner
from sparkbeam.coders import OrderedIntCoder
from sparkbeam.state import SortedMultimapStateSpec

VALUE = b"x" * 20
STEPS = 20
TRADES = Metrics.counter("bench", "trades")

Element = tuple[str, tuple[bool, int]]
"""A key; whether it is a trade, and when it was, in seconds."""


class WithBags(beam.DoFn):
    """Reads, sorts and writes all at each timer.

    Args:
        limit: seconds after which it lets go of everything.
    """

    PAIRS = coders.TupleCoder((coders.VarIntCoder(), coders.BytesCoder()))
    QUOTES, BAG = BagStateSpec("quotes", PAIRS), BagStateSpec("trades", PAIRS)
    DUE = TimerSpec("due", TimeDomain.WATERMARK)

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._begun = 0.0

    def process(
        self,
        element: Element,
        quotes: Any = beam.DoFn.StateParam(QUOTES),
        trades: Any = beam.DoFn.StateParam(BAG),
        due: Any = beam.DoFn.TimerParam(DUE),
    ) -> None:
        """Keeps an element."""
        _, (is_trade, at) = element
        (trades if is_trade else quotes).add((at, VALUE))
        due.set(1)

    @on_timer(DUE)
    def ripe(
        self,
        now: Any = beam.DoFn.TimestampParam,
        quotes: Any = beam.DoFn.StateParam(QUOTES),
        trades: Any = beam.DoFn.StateParam(BAG),
        due: Any = beam.DoFn.TimerParam(DUE),
    ) -> Iterator[Any]:
        """Puts out the trades up to now."""
        self._begun = self._begun or time.monotonic()
        limit = int(now)
        kept_trades, kept_quotes = sorted(trades.read()), sorted(quotes.read())
        trades.clear()
        quotes.clear()
        if time.monotonic() - self._begun > self._limit:
            return
        ripe = bisect_right(kept_trades, (limit, b"\xff"))
        for at, trade in kept_trades[:ripe]:
            TRADES.inc()
            place = bisect_right(kept_quotes, (at, b"\xff"))
            yield at, trade, kept_quotes[place - 1] if place else None
        for some in kept_trades[ripe:]:
            trades.add(some)
        for some in kept_quotes[max(0, bisect_right(kept_quotes, (limit, b"\xff")) - 1) :]:
            quotes.add(some)
        if ripe < len(kept_trades):
            due.set(kept_trades[ripe][0])


class WithSortedState(beam.DoFn):
    """Reads and removes what it needs."""

    QUOTES = SortedMultimapStateSpec("quotes", OrderedIntCoder(), coders.BytesCoder())
    SORTED = SortedMultimapStateSpec("trades", OrderedIntCoder(), coders.BytesCoder())
    DUE = TimerSpec("due", TimeDomain.WATERMARK)

    def process(
        self,
        element: Element,
        quotes: Any = beam.DoFn.StateParam(QUOTES),
        trades: Any = beam.DoFn.StateParam(SORTED),
        due: Any = beam.DoFn.TimerParam(DUE),
    ) -> None:
        """Keeps an element."""
        _, (is_trade, at) = element
        (trades if is_trade else quotes).put(at, VALUE)
        due.set(1)

    @on_timer(DUE)
    def ripe(
        self,
        now: Any = beam.DoFn.TimestampParam,
        quotes: Any = beam.DoFn.StateParam(QUOTES),
        trades: Any = beam.DoFn.StateParam(SORTED),
        due: Any = beam.DoFn.TimerParam(DUE),
    ) -> Iterator[Any]:
        """Puts out the trades up to now."""
        limit = int(now)
        for at, trade in trades.entries_until(limit):
            TRADES.inc()
            yield at, trade, quotes.floor(at)
        trades.remove_until(limit)
        last = quotes.floor(limit)
        if last is not None:
            quotes.remove_until(last[0] - 1)
        following = trades.first()
        if following is not None:
            due.set(following[0])


def elements(count: int) -> list[Element]:
    """So many trades and as many quotes, in no order."""
    found = [("key", (n % 2 == 0, 10 + n)) for n in range(2 * count)]
    random.Random(0).shuffle(found)
    return found


def seconds_of(pair: Element) -> TimestampedValue[Any]:
    """An element at its time."""
    return TimestampedValue(pair, pair[1][1])


def stream(count: int) -> TestStream:
    """All elements, then the watermark in steps."""
    events = TestStream().add_elements([seconds_of(pair) for pair in elements(count)])
    for step in range(1, STEPS + 1):
        events = events.advance_watermark_to(10 + 2 * count * step // STEPS)
    return events.advance_watermark_to_infinity()


def joined(pairs: Any, way: str, limit: float) -> None:
    """Applies one of the ways."""
    if way == "AsOfJoin":
        sides = [
            pairs
            | f"Only {is_trade}" >> beam.Filter(lambda e, is_trade=is_trade: e[1][0] == is_trade)
            | f"Bytes {is_trade}"
            >> beam.Map(lambda e: (e[0], VALUE)).with_output_types(tuple[str, bytes])
            for is_trade in (True, False)
        ]
        matched = tuple(sides) | AsOfJoin()
        _ = matched | "Count" >> beam.Map(lambda _: TRADES.inc())
        return
    _ = pairs | way >> beam.ParDo(WithBags(limit) if way == "bags" else WithSortedState())


def join(spark: Any, way: str, count: int, limit: float, *, streaming: bool) -> tuple[float, int]:
    """Seconds of a whole pipeline, and how many trades have come out."""
    with tempfile.TemporaryDirectory() as folder:
        flags = ["--streaming", f"--checkpoint_location={folder}"] if streaming else []
        pipeline = beam.Pipeline(SparkRunner(spark), options=PipelineOptions(flags))
        made = [count]
        source = (
            stream(count)
            if streaming
            else beam.Create(made, reshuffle=False)
            | "Elements" >> beam.FlatMap(elements)
            | "At" >> beam.Map(seconds_of)
        )
        typed = beam.Map(lambda pair: pair).with_output_types(tuple[str, tuple[bool, int]])
        joined(pipeline | source | "Typed" >> typed, way, limit)
        start = time.perf_counter()
        result = pipeline.run()
        result.wait_until_finish()
        taken = time.perf_counter() - start
    (found,) = result.metrics().query(MetricsFilter().with_name("trades"))["counters"]
    return taken, found.committed


def joins(spark: Any, modes: list[str], sizes: list[int], limit: float) -> Table:
    """Join trades with quotes in all ways."""
    table = Table("mode", "trades and quotes", "bags, s", "sorted, s", "AsOfJoin, s", "bags/sorted")
    for mode in modes:
        streaming = mode == "streaming"
        join(spark, "sorted", 10, limit, streaming=streaming)
        for count in sizes:
            row = [mode, f"{count:,} each"]
            bags, done = join(spark, "bags", count, limit, streaming=streaming)
            part = done / count
            if done < count:
                bags = limit / (2 * part - part * part) if done else 0.0
                row.append(f"given up after {limit:.0f} s at {part:.2%}: about {bags:,.0f}")
            else:
                row.append(f"{bags:.1f}")
            taken = {
                way: join(spark, way, count, limit, streaming=streaming)
                for way in ("sorted", "AsOfJoin")
            }
            assert all(done == count for _, done in taken.values())
            row += [f"{seconds:.1f}" for seconds, _ in taken.values()]
            row.append(f"{bags / taken['sorted'][0]:,.1f}" if bags else "-")
            table.add_row(*row)
    return table


def main() -> None:
    """Runs the joins and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mode", choices=["batch", "streaming"], help="default: both")
    parser.add_argument("--sizes", type=int, nargs="*", default=[1000, 10_000, 100_000])
    parser.add_argument("--limit", type=float, default=30, help="seconds for bags")
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    modes = [arguments.mode] if arguments.mode else ["batch", "streaming"]
    with session_on("local") as spark:
        Console(width=120).print(joins(spark, modes, arguments.sizes, arguments.limit))


if __name__ == "__main__":
    main()
