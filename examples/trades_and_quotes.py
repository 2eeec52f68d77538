"""Which quote was each trade made at? An as-of join over a generated market.

Makes trades and quotes of 500 symbols with a seeded generator, unless they are there: a file of
each for every minute. Joins each trade with the quote before it, of the same symbol and at most
``--tolerance`` seconds old, averages how far bid and ask were apart, in basis points, over windows
of ten seconds, and draws that over time::

    python examples/trades_and_quotes.py
    python examples/trades_and_quotes.py --streaming --checkpoint_location=out/checkpoint
    python examples/trades_and_quotes.py --symbols=50 --minutes=3 --tolerance=1

With ``--streaming`` the files are a stream, a minute in each micro-batch, and the program ends when
it has read them; the last windows stay open then, as later minutes might still come.
"""

import argparse
import math
import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import combiners, window
from rich.console import Console

from sparkbeam import AsOfJoin
from sparkbeam.io import ReadFromSpark, WriteToSpark

OPENING = datetime(2030, 1, 7, 9, 30, tzinfo=UTC)
TIME = pa.timestamp("us", "UTC")
QUOTE_COLUMNS = "symbol string, at timestamp, bid double, ask double"
TRADE_COLUMNS = "symbol string, at timestamp, price double, size bigint"
QUOTES = pa.schema(
    [("symbol", pa.string()), ("at", TIME), ("bid", pa.float64()), ("ask", pa.float64())]
)
TRADES = pa.schema(
    [("symbol", pa.string()), ("at", TIME), ("price", pa.float64()), ("size", pa.int64())]
)
SECONDS = 10


class Quote(NamedTuple):
    """What buyers and sellers offer."""

    bid: float
    ask: float


class Trade(NamedTuple):
    """A price that was paid."""

    price: float
    size: int


for _kind in (Quote, Trade):
    beam.coders.registry.register_coder(_kind, beam.coders.RowCoder)


def market(symbols: int, minutes: int, seed: int) -> Iterator[tuple[str, int, pa.Table]]:
    """A table of quotes and one of trades for each minute: what it is, the minute, the table."""
    chance = random.Random(seed)
    prices = {f"S{number:03}": 20 + 200 * chance.random() for number in range(symbols)}
    for minute in range(minutes):
        quotes, trades = [], []
        for symbol in prices:
            for second in sorted(60 * chance.random() for _ in range(12)):
                at = 60 * minute + second
                price = prices[symbol] = prices[symbol] * math.exp(chance.gauss(0, 2e-4))
                half = price * _spread(at / 60) * chance.uniform(0.7, 1.3) / 2
                quotes.append((symbol, _time(at), price - half, price + half))
                if chance.random() < 0.35:
                    paid = price + half * chance.choice((-1, 1))
                    later = min(at + chance.expovariate(1.0), 60 * minute + 59.999)
                    trades.append((symbol, _time(later), paid, 100 * chance.randrange(1, 20)))
        yield "quotes", minute, _table(QUOTES, quotes)
        yield "trades", minute, _table(TRADES, trades)


def _spread(minute: float) -> float:
    """Wide at the opening, and for a while after news in the middle of the seventh minute."""
    news = math.exp(-(minute - 6.5)) if minute > 6.5 else 0.0
    return 1e-4 * (4 + 12 * math.exp(-minute / 1.5) + 9 * news)


def _time(second: float) -> datetime:
    return OPENING + timedelta(milliseconds=int(1000 * second))


def _table(schema: pa.Schema, rows: list[tuple[Any, ...]]) -> pa.Table:
    rows.sort(key=lambda row: row[1])
    columns = zip(*rows, strict=True)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema)


def generate(folder: Path, symbols: int, minutes: int, seed: int) -> None:
    """Writes the market, if it is not there."""
    for kind, minute, table in market(symbols, minutes, seed):
        file = folder / kind / f"minute-{minute:03}.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            pq.write_table(table, file)


def read(folder: Path, schema: str) -> ReadFromSpark:
    """The files of a folder, in a stream one after the other."""
    options = {"path": str(folder), "maxFilesPerTrigger": 1}
    return ReadFromSpark("parquet", options, schema=schema, timestamp_column="at")


def to_quote(row: Any) -> tuple[str, Quote]:
    """A quote by its symbol."""
    return row.symbol, Quote(row.bid, row.ask)


def to_trade(row: Any) -> tuple[str, Trade]:
    """A trade by its symbol."""
    return row.symbol, Trade(row.price, row.size)


def spread(matched: tuple[str, tuple[Trade, Quote | None]]) -> Iterator[float]:
    """How far bid and ask were apart at a trade, in basis points; nothing without a quote."""
    _, (_, quote) = matched
    if quote is not None:
        yield 2e4 * (quote.ask - quote.bid) / (quote.ask + quote.bid)


def to_point(found: tuple[int, float], of: Any = beam.DoFn.WindowParam) -> dict[str, Any]:
    """A row of the output."""
    trades, mean = found
    return {"at": of.start.to_utc_datetime(), "trades": trades, "spread": mean}


def draw(points: list[dict[str, Any]], file: Path) -> None:
    """Draws the mean spread over time, as SVG."""
    width, height, edge = 720, 260, 40
    first = points[0]["at"]
    span = (points[-1]["at"] - first).total_seconds() or 1.0
    top = max(point["spread"] for point in points)
    places = [
        (
            edge + (width - 2 * edge) * (point["at"] - first).total_seconds() / span,
            height - edge - (height - 2 * edge) * point["spread"] / top,
        )
        for point in points
    ]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    base, right = height - edge, width - edge
    file.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="12">\n'
        f'<rect width="{width}" height="{height}" fill="white"/>\n'
        f'<path d="M{edge},{edge}V{base}H{right}" fill="none" stroke="gray"/>\n'
        f'<polyline points="{line}" fill="none" stroke="#1f77b4" stroke-width="2"/>\n'
        f'<text x="{edge}" y="{edge - 12}">mean spread at a trade, up to {top:.1f} basis points'
        "</text>\n"
        f'<text x="{edge}" y="{height - 14}">{first:%H:%M:%S}</text>\n'
        f'<text x="{right}" y="{height - 14}" text-anchor="end">{points[-1]["at"]:%H:%M:%S}'
        "</text>\n</svg>\n"
    )


def build(pipeline: beam.Pipeline, market: Path, tolerance: float, output: Path, mode: str) -> None:
    """Trades with the quote before them, and the mean spread over time into Parquet."""
    quotes = (
        pipeline
        | "Quotes" >> read(market / "quotes", QUOTE_COLUMNS)
        | "Quote" >> beam.Map(to_quote).with_output_types(tuple[str, Quote])
    )
    trades = (
        pipeline
        | "Trades" >> read(market / "trades", TRADE_COLUMNS)
        | "Trade" >> beam.Map(to_trade).with_output_types(tuple[str, Trade])
    )
    _ = (
        (trades, quotes)
        | "Match" >> AsOfJoin(tolerance=tolerance)
        | "Spread" >> beam.FlatMap(spread).with_output_types(float)
        | "Windows" >> beam.WindowInto(window.FixedWindows(SECONDS))
        | "Mean"
        >> beam.CombineGlobally(
            combiners.SingleInputTupleCombineFn(
                combiners.CountCombineFn(), combiners.MeanCombineFn()
            )
        ).without_defaults()
        | "Point" >> beam.Map(to_point)
        | "Write"
        >> WriteToSpark(
            "parquet",
            {"path": str(output)},
            "at timestamp, trades bigint, spread double",
            mode=mode,
        )
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the pipeline, then draws what it wrote."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--folder", default="out/trades-and-quotes", help="of the market and output"
    )
    parser.add_argument("--symbols", type=int, default=500)
    parser.add_argument("--minutes", type=int, default=15)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--tolerance", type=float, default=30, help="seconds a quote counts for")
    parser.add_argument("--runner", default="sparkbeam.SparkRunner")
    arguments, beam_arguments = parser.parse_known_args(argv)
    market_name = f"market-{arguments.symbols}-{arguments.minutes}-{arguments.seed}"
    folder = Path(arguments.folder)
    generate(folder / market_name, arguments.symbols, arguments.minutes, arguments.seed)
    kind = "streaming" if "--streaming" in beam_arguments else "batch"
    if kind == "streaming":
        beam_arguments.append("--trigger=available-now")
    output = folder / f"spreads-{kind}"

    with beam.Pipeline(arguments.runner, PipelineOptions(beam_arguments)) as pipeline:
        mode = "append" if kind == "streaming" else "overwrite"
        build(pipeline, folder / market_name, arguments.tolerance, output, mode)
    points = sorted(ds.dataset(output).to_table().to_pylist(), key=lambda point: point["at"])
    picture = folder / f"spreads-{kind}.svg"
    draw(points, picture)
    trades_matched = sum(point["trades"] for point in points)
    Console().print(f"{trades_matched:,} trades with a quote; drawn: {picture}", soft_wrap=True)


if __name__ == "__main__":
    main()
