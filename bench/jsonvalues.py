"""JSON over columns: pipelines that parse it beside themselves with calls, and beside Spark.

Run with ``python bench/jsonvalues.py``. Nexmark's bids are written once to Parquet, each as JSON in
a column of bytes, as Kafka delivers them. In one session on two cores the contestants take turns:
a pipeline whose ``json.loads`` runs over columns, the same with an argument of ``json.loads`` that
changes nothing but has it called, and Spark's ``from_json``.
"""

import argparse
import json
import logging
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import FixedWindows
from columns import Task, in_beam, in_spark, write_bids
from contest import in_turns
from places import session_on
from pyspark.sql import functions as sf
from rich.console import Console
from rich.table import Table

from sparkbeam.io import ReadFromSpark


def parsed(text: bytes) -> Any:
    """Parses a text; compiled."""
    return json.loads(text)


def called(text: bytes) -> Any:
    """Parses a text; called."""
    return json.loads(text, strict=True)


def sums(rows: Any, parse: Callable[[bytes], Any]) -> Any:
    """What each bidder has bid in ten seconds, of items that one step reads."""

    def pair(row: Any) -> Any:
        bid = parse(row.value)
        return bid["bidder"], bid["price"]

    return _summed(rows | "pair" >> beam.Map(pair))


def sums_in_steps(rows: Any, parse: Callable[[bytes], Any]) -> Any:
    """The same of whole objects, which a step hands to the next one."""
    return _summed(
        rows
        | "parse" >> beam.Map(lambda row: parse(row.value))
        | "pair" >> beam.Map(lambda bid: (bid["bidder"], bid["price"]))
    )


def _summed(pairs: Any) -> Any:
    return (
        pairs
        | beam.WindowInto(FixedWindows(10))
        | beam.CombinePerKey(sum)
        | beam.MapTuple(lambda bidder, total: total)
    )


def few(rows: Any, parse: Callable[[bytes], Any]) -> Any:
    """The prices of some auctions."""
    return (
        rows
        | beam.Filter(lambda row: parse(row.value)["auction"] % 123 == 0)
        | "price" >> beam.Map(lambda row: parse(row.value)["price"])
    )


def _bids(rows: Any) -> Any:
    fields = sf.from_json(sf.col("value").cast("string"), "auction long, bidder long, price long")
    return rows.select("at", fields.alias("bid")).select("at", "bid.*")


def _sums_in_spark(rows: Any) -> Any:
    return (
        _bids(rows)
        .groupBy(sf.window("at", "10 seconds"), "bidder")
        .agg(sf.sum("price").alias("number"))
    )


TASKS = {
    "sum of a bidder in 10 s": (sums, _sums_in_spark),
    "the same, whole objects": (sums_in_steps, _sums_in_spark),
    "filter and map": (
        few,
        lambda rows: _bids(rows).where("auction % 123 = 0").select(sf.col("price").alias("number")),
    ),
}


def write_json(spark: Any, events: int, folder: str) -> None:
    """The bids among so many events as JSON, in Parquet."""
    with tempfile.TemporaryDirectory() as scratch:
        write_bids(spark, events, f"{scratch}/bids")
        bids = spark.read.parquet(f"{scratch}/bids")
        fields = sf.struct("auction", "bidder", "price", "date_time", "extra")
        value = sf.to_json(fields).cast("binary").alias("value")
        bids.select("at", value).write.parquet(folder)


def main() -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    table = Table("task", "program", "results", "s", "relative to the first")
    with tempfile.TemporaryDirectory() as scratch, session_on("local") as spark:
        folder = str(Path(scratch, "json"))
        write_json(spark, arguments.events, folder)
        for name, (build, query) in TASKS.items():
            tasks = {
                program: Task(name, partial(build, parse=parse), query, _read)
                for program, parse in {"columns": parsed, "called": called}.items()
            }
            programs: dict[str, Callable[[], tuple[int, int]]] = {
                program: partial(in_beam, spark, folder, task) for program, task in tasks.items()
            }
            programs["Spark"] = partial(in_spark, spark, folder, tasks["columns"])
            results, times = in_turns(name, programs, arguments.rounds)
            if len(set(results.values())) > 1:
                sys.exit("The results differ.")
            for program, one in times.items():
                ratio = one.median / times["columns"].median
                cells = f"{results[program][0]:,}", f"{one.median:.2f}", f"{ratio:.2f}x"
                table.add_row(name, program, *cells)
    Console(width=120).print(table)


def _read(folder: str, events: int) -> Any:
    return ReadFromSpark("parquet", {"path": folder}, timestamp_column="at")


if __name__ == "__main__":
    main()
