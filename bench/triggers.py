"""Query 11 with triggers: the columnar aggregator of sessions, whatever fires them.

Run with ``python bench/triggers.py``. Nexmark's bids are written to Parquet. Then, in one session
on two cores, the contestants take turns: the query over Beam's own ``ReadFromParquet`` with the
default trigger, with that of Beam's query, and with an early one.
"""

import argparse
import logging
import sys
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from apache_beam.transforms.trigger import (
    AccumulationMode,
    AfterCount,
    AfterWatermark,
    Repeatedly,
)
from columns import TASKS, Task, in_beam, of_files, session_counts, write_bids
from contest import in_turns
from places import CORES
from rich.console import Console
from rich.table import Table

from sparkbeam.options.spark_options import SparkBeamOptions
from sparkbeam.spark import session

COUNT = 100_000
PANES = {"accumulation_mode": AccumulationMode.DISCARDING, "allowed_lateness": 1}
TRIGGERS: dict[str, dict[str, Any]] = {
    "the default one": {},
    "Repeatedly(AfterCount)": {"trigger": Repeatedly(AfterCount(COUNT)), **PANES},
    "AfterWatermark(early=AfterCount)": {
        "trigger": AfterWatermark(early=AfterCount(COUNT)),
        **PANES,
    },
}


def triggered(firing: dict[str, Any]) -> Task:
    """The query with a trigger."""
    return of_files(replace(TASKS["sessions"], build=partial(session_counts, **firing)))


def main() -> None:
    """Measures, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    spark = session.obtain(SparkBeamOptions([f"--spark_master=local[{CORES}]"]))
    with tempfile.TemporaryDirectory() as scratch:
        folder = str(Path(scratch, "bids"))
        write_bids(spark, arguments.events, folder)
        contestants = {
            name: partial(in_beam, spark, folder, triggered(firing), "--allow_unsafe_triggers")
            for name, firing in TRIGGERS.items()
        }
        found, times = in_turns("Query 11", contestants, arguments.runs)
    if len(set(found.values())) > 1:
        sys.exit(f"Results differ: {found}")
    table = Table("trigger", "sessions", "s", "relative to the first")
    first = next(iter(times.values())).median
    for name, one in times.items():
        row = f"{found[name][0]:,}", f"{one.median:.2f}", f"{one.median / first:.2f}x"
        table.add_row(name, *row)
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
