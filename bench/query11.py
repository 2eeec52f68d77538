"""Query 11 with each aggregator of sessions, beside Spark's own ``session_window``.

Run with ``python bench/query11.py``. Nexmark's bids are written to Parquet once for each number of
events. Then, in one session on two cores, the contestants take turns: the query with its own
trigger over Beam's own ``ReadFromParquet`` with ``--session_aggregator=canonical``, ``ordered`` and
``columnar``, and Spark's aggregation, which has no trigger. The runs are written to ``query11.csv``
in a folder, ``out`` if not ``--folder docs``, and ``query11.svg`` beside it is what
``query11.vl.json`` draws of them; ``--draw`` does that alone, of a file that is there.
"""

import csv
import json
import logging
import sys
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import apache_beam as beam
import click
import vl_convert
from columns import TASKS, in_beam, in_spark, of_files, write_bids
from contest import Times, in_turns
from places import CORES
from rich.console import Console
from rich.table import Table

from beam_nexmark.configuration import Configuration
from beam_nexmark.queries.q11_user_sessions import counted
from sparkbeam.options.spark_options import SparkBeamOptions
from sparkbeam.plan.grouping import SessionAggregator
from sparkbeam.spark import session

ROOT = Path(__file__).parents[1]
SPARK = "Spark session_window"
AGGREGATORS = [SessionAggregator.CANONICAL, SessionAggregator.ORDERED, SessionAggregator.COLUMNAR]

Measured = list[tuple[int, Times]]
"""For each number of events what the contestants take."""


def query11(bids: Any) -> Any:
    """The numbers of bids in sessions, as the query counts them."""
    counts = counted(bids, Configuration())
    return counts | "number" >> beam.Map(lambda count: count.bids)


def measured(events: list[int], runs: int) -> Measured:
    """All runs of all contestants."""
    spark = session.obtain(SparkBeamOptions([f"--spark_master=local[{CORES}]"]))
    task = of_files(replace(TASKS["sessions"], build=query11))
    every: Measured = []
    for count in events:
        with tempfile.TemporaryDirectory() as scratch:
            folder = str(Path(scratch, "bids"))
            write_bids(spark, count, folder)
            contestants = {
                kind.value.title(): partial(
                    in_beam, spark, folder, task, f"--session_aggregator={kind.value}"
                )
                for kind in AGGREGATORS
            } | {SPARK: partial(in_spark, spark, folder, task)}
            found, times = in_turns(f"{count:,} events", contestants, runs)
        if len({result for name, result in found.items() if name != SPARK}) > 1:
            sys.exit(f"The aggregators differ: {found}")
        every += [(count, one) for one in times.values()]
    return every


def write(every: Measured, file: Path) -> None:
    """Writes a row for each run."""
    rows = [
        {
            "Events": count,
            "Aggregator": one.program,
            "Runtime (secs)": seconds,
            "Throughput (per sec)": count / seconds,
        }
        for count, one in every
        for seconds in one.seconds
    ]
    with file.open("w", newline="", encoding="utf-8") as lines:
        writer = csv.DictWriter(lines, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def drawn(file: Path) -> str:
    """The picture that the specification makes of a file, each scale about its boxes."""
    with file.open(newline="", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    specification = json.loads((ROOT / "bench" / "query11.vl.json").read_text())
    specification["data"] = {"values": [_parsed(row) for row in rows]}
    for group in specification["hconcat"]:
        for chart in group["hconcat"]:
            chart["encoding"]["y"]["scale"] = {"type": "log"}
            chart["encoding"]["y"]["axis"] = {"format": "~s"}
    picture: str = vl_convert.vegalite_to_svg(specification)
    return picture


def _parsed(row: dict[str, str]) -> dict[str, str | float]:
    """A row in which numbers are numbers, as Vega-Lite reads it."""
    texts = ("Events", "Aggregator")
    return {name: value if name in texts else float(value) for name, value in row.items()}


@click.command()
@click.option("--events", type=int, multiple=True, default=(1_000_000, 10_000_000))
@click.option("--runs", default=10, help="How many there are of each contestant.")
@click.option("--folder", type=click.Path(path_type=Path), default=ROOT / "out")
@click.option("--draw", "is_drawn", is_flag=True, help="Draw what is there; measure nothing.")
def main(events: tuple[int, ...], runs: int, folder: Path, *, is_drawn: bool) -> None:
    """Measures, writes the file, draws it and prints the table."""
    logging.disable(logging.WARNING)
    folder.mkdir(exist_ok=True)
    file = folder / "query11.csv"
    if not is_drawn:
        every = measured(list(events), runs)
        write(every, file)
        show(every)
    (folder / "query11.svg").write_text(drawn(file))


def show(every: Measured) -> None:
    """Prints the medians."""
    table = Table("events", "aggregator", "s", "events/s")
    for count, one in every:
        table.add_row(f"{count:,}", one.program, f"{one.median:.2f}", f"{count / one.median:,.0f}")
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
