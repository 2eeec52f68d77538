"""What it costs to reduce elements into the sessions of one key, with each aggregator.

Run with ``python bench/reduce.py``. It needs no Spark. The workload is that of the benchmark of
session aggregators in Beam's Java SDK: a gap of 5 ms; an element begins a new session with a
given probability, 6 ms behind the latest element so far; else it falls 1 ms behind that
(*sequential inserts*) or anywhere before it (*random inserts*).

All iterations take the same time of the processor, each from an empty buffer, so that a faster
aggregator comes to have more sessions; what it takes to make the elements does not count, and
what it takes until the first of the sessions can be had does. The canonical and the ordered
aggregator get them one by one. The columnar one is the table in which a combine gathers the pairs
of a pipeline that come in columns: it gets columns of 10,000, makes sessions of as many as a
combine does, and hands its sessions on where a combine does. The results are written to a folder
(``--folder``, ``out``) in the form of JMH's: ``jmh-result.json`` for the canonical and the ordered
aggregator, and ``jmh-result-columnar.json`` with the columnar one in the place of the ordered one.
``reduce-ordered.svg`` and ``reduce-columnar.svg`` beside them are what ``reduce.vl.json`` draws of
them; ``--draw`` does that alone, of files that are there. ``--inserts random --probability 0.1``
measures one point alone. The files are written after each point; ``--keep`` leaves those there that
are not measured again. All points, 25 iterations of 5 s each, take 45 minutes.
"""

import json
import statistics
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import vl_convert
from apache_beam.transforms.combiners import CountCombineFn
from rich.console import Console
from rich.table import Table

from sparkbeam.aggregate.canonical_sessions import CanonicalSessions
from sparkbeam.aggregate.columnar_sessions import SessionColumns
from sparkbeam.aggregate.ordered_sessions import OrderedSessions
from sparkbeam.columns.python_types import INT
from sparkbeam.worker.steps.column_tables import SessionTable

ROOT = Path(__file__).parents[1]
GAP, NEW, NEXT = 5_000, 6_000, 1_000
PUBLISHED = (0.1, 0.2, 0.4)
INSERTS = ("sequential", "random")
CURVE = (0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0)
BATCH = 10_000
LOOK = 64


class Measured(NamedTuple):
    """An iteration.

    Attributes:
        rate: elements a second.
        sessions: how many there were in the end.
    """

    rate: float
    sessions: int


class Workload:
    """Timestamps in microseconds, without an end.

    Args:
        probability: of a new session.
        sequential: other elements fall into the last session, not anywhere.
        seed: of what is random.
    """

    def __init__(self, probability: float, *, sequential: bool, seed: int) -> None:
        self._probability = probability
        self._step = NEXT if sequential else 0
        self._random = np.random.default_rng(seed)
        self._latest = 0

    def take(self, count: int) -> npt.NDArray[np.int64]:
        """The next timestamps."""
        is_new = self._random.random(count) < self._probability
        latest = self._latest + np.cumsum(np.where(is_new, NEW, self._step))
        self._latest = int(latest[-1])
        if self._step:
            return latest
        anywhere = np.floor(latest / 1000 * self._random.random(count)).astype(np.int64) * 1000
        return np.where(is_new, latest, anywhere)


def one_by_one(aggregator: Any, workload: Workload, seconds: float) -> Measured:
    """Reduces elements one after the other."""
    reduce, buffer = aggregator.reduce, aggregator.zero()
    spent, count, look = 0.0, 0, LOOK
    while spent < seconds:
        some = workload.take(look).tolist()
        begin = time.process_time()
        for stamp in some:
            buffer = reduce(buffer, stamp, stamp + GAP, stamp, None)
        took = time.process_time() - begin
        spent += took
        count += look
        look = min(BATCH, 2 * look) if took < seconds / 100 else max(1, look // 2)
    return finished(aggregator, buffer, count, spent)


def as_columns(workload: Workload, seconds: float) -> Measured:
    """Gathers columns in the table of a combine, and takes the sessions out when it is full."""
    table = SessionTable(SessionColumns(CountCombineFn(), max), INT)
    spent, count, sessions, is_waiting = 0.0, 0, 0, True
    ones = np.ones(BATCH, np.int64)
    keys = pa.array(ones)
    while spent < seconds or is_waiting:
        column = workload.take(BATCH)
        begin = time.process_time()
        table.add(keys, column, column + GAP, column, ones)
        is_waiting = not table.are_many
        if not is_waiting:
            table.flush_pending()
            if table.is_large:
                sessions += sum(len(found) for _, found in table.take())
        spent += time.process_time() - begin
        count += BATCH
    begin = time.process_time()
    sessions += sum(len(found) for _, found in table.take())
    spent += time.process_time() - begin
    return Measured(count / spent, sessions)


def finished(aggregator: Any, buffer: Any, count: int, spent: float) -> Measured:
    """The iteration, with the time until the first session stands, as others may wait for that."""
    begin = time.process_time()
    next(aggregator.finish(buffer))
    spent += time.process_time() - begin
    return Measured(count / spent, len(buffer))


AGGREGATORS: dict[str, Callable[[Workload, float], Measured]] = {
    "canonical": lambda *what: one_by_one(CanonicalSessions(CountCombineFn(), max), *what),
    "ordered": lambda *what: one_by_one(OrderedSessions(CountCombineFn(), max), *what),
    "columnar": as_columns,
}

Point = tuple[str, bool, float]
"""An aggregator, whether inserts are sequential, and the probability of a new session."""


def measured(
    inserts: str, probability: float, iterations: int, seconds: float
) -> dict[Point, list[Measured]]:
    """All iterations of the aggregators, which take turns."""
    found: dict[Point, list[Measured]] = {}
    sequential = inserts == INSERTS[0]
    for number in range(iterations + 1):
        for name, run in AGGREGATORS.items():
            workload = Workload(probability, sequential=sequential, seed=number)
            one = run(workload, seconds)
            if number:  # The first one warms up.
                found.setdefault((name, sequential, probability), []).append(one)
    return found


def in_jmhs_form(
    found: dict[Point, list[Measured]], optimized: str, seconds: float
) -> list[dict[str, Any]]:
    """The results of the canonical aggregator and of another one as JMH writes them."""
    return [
        {
            "benchmark": "bench.reduce",
            "mode": "thrpt",
            "params": {
                "newSessionProbability": f"{probability:g}",
                "optimize": str(name == optimized).lower(),
                "ordered": str(sequential).lower(),
            },
            "measurementIterations": len(iterations),
            "measurementTime": f"{seconds:g} s",
            "primaryMetric": {
                "score": statistics.mean(one.rate for one in iterations),
                "scoreUnit": "ops/s",
                "rawData": [[one.rate for one in iterations]],
            },
        }
        for (name, sequential, probability), iterations in found.items()
        if name in ("canonical", optimized)
    ]


def kept(earlier: Path, results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The results, and those in an earlier file of points that they do not have, in order."""
    known = json.loads(earlier.read_text()) if earlier.exists() else []
    every = {tuple(one["params"].values()): one for one in (*known, *results)}
    return sorted(every.values(), key=_place)


def _place(result: dict[str, Any]) -> tuple[bool, float, bool]:
    params = result["params"]
    probability = float(params["newSessionProbability"])
    return params["ordered"] == "false", probability, params["optimize"] == "true"


def drawn(file: Path) -> str:
    """The picture that the specification makes of a file."""
    specification = json.loads((ROOT / "bench" / "reduce.vl.json").read_text())
    specification["data"] = {"values": json.loads(file.read_text())}
    picture: str = vl_convert.vegalite_to_svg(specification)
    return picture


def table(found: dict[Point, list[Measured]]) -> Table:
    """Medians, and how many times as many as the canonical aggregator's."""
    shown = Table("inserts", "new session", "aggregator", "elements/s", "sessions", "x canonical")
    for (name, sequential, probability), iterations in found.items():
        rate = statistics.median(one.rate for one in iterations)
        canonical = statistics.median(
            one.rate for one in found["canonical", sequential, probability]
        )
        shown.add_row(
            INSERTS[not sequential],
            f"{probability:g}",
            name,
            f"{rate:,.0f}",
            f"{statistics.median(one.sessions for one in iterations):,.0f}",
            f"{rate / canonical:,.1f}",
        )
    return shown


FILES = {"ordered": "jmh-result.json", "columnar": "jmh-result-columnar.json"}
"""The file of each aggregator that is compared with the canonical one."""


def write(found: dict[Point, list[Measured]], folder: Path, seconds: float, *, keep: bool) -> None:
    """Writes the files of the aggregators."""
    for optimized, name in FILES.items():
        results = in_jmhs_form(found, optimized, seconds)
        if keep:
            results = kept(folder / name, results)
        (folder / name).write_text(f"{json.dumps(results, indent=1)}\n")


@click.command()
@click.option("--iterations", default=25, help="How many there are for each point.")
@click.option("--seconds", default=5.0, help="How long each of them takes at least.")
@click.option("--curve", is_flag=True, help="Probabilities from 0.01 to 1.")
@click.option("--inserts", type=click.Choice(INSERTS), multiple=True, default=INSERTS)
@click.option("--probability", type=float, multiple=True, default=PUBLISHED)
@click.option("--keep", is_flag=True, help="Other points in the files stay there.")
@click.option("--folder", type=click.Path(path_type=Path), default=ROOT / "out")
@click.option("--draw", "is_drawn", is_flag=True, help="Draw what is there; measure nothing.")
def main(
    iterations: int,
    seconds: float,
    inserts: tuple[str, ...],
    probability: tuple[float, ...],
    folder: Path,
    *,
    curve: bool,
    keep: bool,
    is_drawn: bool,
) -> None:
    """Measures, writes the files and prints the table."""
    folder.mkdir(exist_ok=True)
    found: dict[Point, list[Measured]] = {}
    for point in () if is_drawn else product(inserts, CURVE if curve else probability):
        found |= measured(*point, iterations, seconds)
        write(found, folder, seconds, keep=keep)
    for optimized, name in FILES.items():
        (folder / f"reduce-{optimized}.svg").write_text(drawn(folder / name))
    if found:
        Console(width=100).print(table(found))


if __name__ == "__main__":
    main()
