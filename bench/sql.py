"""Nexmark's queries in SQL beside the same ones in Python.

Run with ``python bench/sql.py``. In one session on two cores three forms of a query take turns:
SQL, Python, whose functions run over columns, and the same in Python with ``--columns=off``, where
each element is a Python object, as on runners that have no columns. The results are compared by
their digests beforehand, and counted where time is taken.
"""

import argparse
import logging
import sys
from collections.abc import Callable
from functools import partial

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindows
from contest import in_turns
from places import add_place, place_options
from rich.console import Console
from rich.table import Table

from beam_nexmark.beam_source import NexmarkEvents
from beam_nexmark.configuration import Configuration
from beam_nexmark.engine import Engine, prepared
from beam_nexmark.measure import Measurement
from beam_nexmark.queries import QUERIES
from beam_nexmark.queries.query import Query
from beam_nexmark.queries.sql import SQL_QUERIES
from beam_nexmark.result_digest import Publish, Summary, published

SQL, PYTHON, ELEMENTS = "SQL", "Python", "Python, `--columns=off`"


def answer(engine: Engine, query: Query, configuration: Configuration) -> tuple[int, str]:
    """The number of results of a query, and their digest."""
    run = Measurement(engine, configuration).run(query)
    if run.failure is not None or run.results is None or run.digest is None:
        sys.exit(f"Query {query.number}: {run.failure}")
    return run.results, run.digest


def counted(engine: Engine, query: Query, configuration: Configuration) -> int:
    """The number of results of a query."""

    def build(pipeline: beam.Pipeline) -> object:
        results = query.build(pipeline | NexmarkEvents(configuration), configuration)
        count = results | beam.WindowInto(GlobalWindows()) | beam.combiners.Count.Globally()
        return count | beam.Map(lambda number: Summary(number, "0")) | beam.ParDo(Publish())

    return published(engine.run(build)).results


def main() -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--query", default=",".join(map(str, SQL_QUERIES)), help="such as 0,3,11")
    parser.add_argument("--rounds", type=int, default=3)
    add_place(parser)
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    configuration = Configuration(events=arguments.events)
    table = Table("query", "form", "relative to SQL", "s", "results")
    with place_options(arguments.on) as options:
        columns = prepared("SparkRunner", options)
        elements = prepared("SparkRunner", [*options, "--columns=off"])
        for number in map(int, arguments.query.split(",")):
            forms = {
                SQL: (columns, SQL_QUERIES[number]),
                PYTHON: (columns, QUERIES[number]),
                ELEMENTS: (elements, QUERIES[number]),
            }
            if len({answer(*form, configuration) for form in forms.values()}) > 1:
                sys.exit("The results differ.")
            programs: dict[str, Callable[[], int]] = {
                name: partial(counted, *form, configuration) for name, form in forms.items()
            }
            results, times = in_turns(f"query {number}", programs, arguments.rounds)
            for name, one in times.items():
                ratio = f"{one.median / times[SQL].median:.2f}x"
                table.add_row(str(number), name, ratio, f"{one.median:.2f}", f"{results[name]:,}")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
