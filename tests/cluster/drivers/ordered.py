"""Numbers in the order of their times, by ordered list state, into SQLite by micro-batch.

The numbers of a user wait in ordered list state. Each second of event time a timer puts out those
that the watermark has passed, in order, and tells how many went before: a number that is lost or
processed twice, or state that is not that of the last micro-batch, shows in all that follow.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import (
    CombiningValueStateSpec,
    OrderedListStateSpec,
    TimerSpec,
    on_timer,
)
from apache_beam.utils.timestamp import Timestamp
from paced import Numbers, copies, run

from sparkbeam.io import ForeachBatch

USERS = 7
TICK_MS = 1000
MIXED = 100
COLUMNS = ("user", "number", "before")
SCHEMA = "user bigint, number bigint, before bigint"


def time_ms(number: int) -> int:
    """When a number happens: those of a block come in reverse order."""
    block, place = divmod(number, MIXED)
    return (block * MIXED + MIXED - 1 - place) * 10


def user(number: int) -> int:
    """Whose number it is."""
    return number * 31 % USERS


def expected(events: int) -> Counter[tuple[int, ...]]:
    """The rows of the output, and how often they are there."""
    rows: Counter[tuple[int, ...]] = Counter()
    before: Counter[int] = Counter()
    for number in sorted(range(events), key=time_ms):
        for _ in range(copies(number)):
            rows[user(number), number, before[user(number)]] += 1
            before[user(number)] += 1
    return rows


class InOrder(beam.DoFn):
    """The numbers of a user in the order of their times."""

    WAITING = OrderedListStateSpec("waiting", VarIntCoder())
    TOLD = CombiningValueStateSpec("told", combine_fn=sum)
    DUE = TimerSpec("due", TimeDomain.WATERMARK)

    def process(
        self,
        element: tuple[int, int],
        now: Any = beam.DoFn.TimestampParam,
        waiting: Any = beam.DoFn.StateParam(WAITING),
        due: Any = beam.DoFn.TimerParam(DUE),
    ) -> None:
        waiting.add((now, element[1]))
        first = min(micros(time) for time, _ in waiting.read())
        due.set(Timestamp(micros=(first // (TICK_MS * 1000) + 1) * TICK_MS * 1000))

    @on_timer(DUE)
    def tell(
        self,
        key: Any = beam.DoFn.KeyParam,
        now: Any = beam.DoFn.TimestampParam,
        waiting: Any = beam.DoFn.StateParam(WAITING),
        told: Any = beam.DoFn.StateParam(TOLD),
        due: Any = beam.DoFn.TimerParam(DUE),
    ) -> Iterator[dict[str, int]]:
        start = Timestamp(0)
        for _, number in list(waiting.read_range(start, now)):
            yield dict(zip(COLUMNS, (key, number, told.read()), strict=True))
            told.add(1)
        waiting.clear_range(start, now)
        left = [micros(time) for time, _ in waiting.read()]
        if left:
            due.set(Timestamp(micros=(min(left) // (TICK_MS * 1000) + 1) * TICK_MS * 1000))


def micros(time: Any) -> int:
    """A time of the state as a number."""
    return int(Timestamp.of(time).micros)


class IntoSqlite:
    """Writes each micro-batch in a transaction with its number, once."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __call__(self, batch: Any, batch_id: int) -> None:
        rows = [tuple(row) for row in batch.select(*COLUMNS).collect()]
        with sqlite3.connect(self._path) as database:
            database.execute("CREATE TABLE IF NOT EXISTS batches (id INTEGER PRIMARY KEY)")
            database.execute(
                "CREATE TABLE IF NOT EXISTS rows (user INTEGER, number INTEGER, before INTEGER)"
            )
            if database.execute("SELECT 1 FROM batches WHERE id = ?", (batch_id,)).fetchone():
                return
            database.execute("INSERT INTO batches VALUES (?)", (batch_id,))
            database.executemany("INSERT INTO rows VALUES (?, ?, ?)", rows)


def of_users(
    pipeline: beam.Pipeline, events: int, rate: float, output: str, of_user: beam.DoFn
) -> None:
    """The pipeline around a DoFn that puts out the rows of a user."""
    _ = (
        pipeline
        | "Events" >> Numbers(events, rate, time_ms)
        | "By user"
        >> beam.Map(lambda number: (user(number), number)).with_output_types(tuple[int, int])
        | "Of user" >> beam.ParDo(of_user)
        | ForeachBatch(IntoSqlite(output), SCHEMA)
    )


def build(pipeline: beam.Pipeline, events: int, rate: float, output: str) -> None:
    """The pipeline."""
    of_users(pipeline, events, rate, output, InOrder())


def written(output: Path) -> Counter[tuple[int, ...]]:
    """The rows of the table, and how often they are there."""
    with sqlite3.connect(output) as database:
        return Counter(database.execute("SELECT user, number, before FROM rows"))


if __name__ == "__main__":
    run(build)
