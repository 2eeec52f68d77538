"""Nexmark: sparkbeam beside Beam's FnApiRunner.

Run with ``python bench/nexmark.py``. Both runners answer the same queries about
the same events on the same machine in one run, in a warm session; the table
gives the median of ``--repeat`` runs and the ratio to sparkbeam. Runs that did
not end are marked, as are results that differ between the two.
"""

import argparse
import logging
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from sparkbeam.nexmark.configuration import Configuration
from sparkbeam.nexmark.engine import prepared
from sparkbeam.nexmark.measure import Measurement
from sparkbeam.nexmark.queries import QUERIES
from sparkbeam.nexmark.record import Run, median_seconds, write_json


def main() -> None:
    """Runs the contest, prints the table and writes the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--query", default=",".join(map(str, QUERIES)), help="such as 0,3,11")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--spark_master", default="local[2]")
    parser.add_argument("--json", type=Path, default=Path("nexmark-bench.json"))
    parser.add_argument("--sparkbeam_only", action="store_true")
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)

    configuration = Configuration(events=arguments.events)
    engines = [prepared("SparkRunner", [f"--spark_master={arguments.spark_master}"])]
    if not arguments.sparkbeam_only:
        engines.append(prepared("FnApiRunner", []))
    contestants = [Measurement(engine, configuration) for engine in engines]
    for contestant in contestants:
        contestant.warm_up()

    table = Table(
        title=f"{arguments.events:,} events, {arguments.spark_master}, median of {arguments.repeat}"
    )
    for column in ("query", "runner", "seconds", "events/s", "results", "relative to sparkbeam"):
        table.add_column(column, justify="left" if column in ("query", "runner") else "right")
    everything: list[Run] = []
    numbers = [int(number) for number in arguments.query.split(",")]
    for number in track(numbers, "Queries", console=Console(stderr=True), transient=True):
        own: list[Run] = []
        for contestant in contestants:
            runs = [
                contestant.run(QUERIES[number], repeat) for repeat in range(1, arguments.repeat + 1)
            ]
            own = own or runs
            table.add_row(f"{number} {QUERIES[number].name}", *cells(runs, own))
            everything += runs
            write_json(everything, arguments.json)
    Console(width=120).print(table)


def cells(runs: list[Run], own: list[Run]) -> list[str]:
    """The cells of the table for the runs of one runner beside those of sparkbeam."""
    first, ours = runs[0], own[0]
    seconds, base = median_seconds(runs), median_seconds(own)
    if seconds is None:
        return [first.runner, "failed"]
    same = (first.results, first.digest) == (ours.results, ours.digest)
    return [
        first.runner,
        f"{seconds:.2f}",
        f"{first.events / seconds:,.0f}",
        f"{first.results:,}" if same or ours.failure else f"{first.results:,} (differ)",
        f"{seconds / base:.2f}x" if base else "",
    ]


if __name__ == "__main__":
    main()
