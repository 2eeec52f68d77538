"""Three chained stateful steps over a stream, into files; see ``test_crash.py``.

The stream has some events twice. The first step counts how often it has each, and tells when a
timer fires; the second adds up windows; the third keeps running totals, with a timer for each
end of a window. So an event that is lost, read twice or processed twice shows in the output, and
so does a timer. :func:`expected` tells what is right without Beam.
"""

import functools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow.dataset as ds
from apache_beam.coders import FastPrimitivesCoder, VarIntCoder
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import (
    BagStateSpec,
    CombiningValueStateSpec,
    ReadModifyWriteStateSpec,
    TimerSpec,
    on_timer,
)
from apache_beam.transforms.window import FixedWindows, GlobalWindows
from apache_beam.utils.timestamp import Duration, Timestamp
from paced import Numbers, copies, in_order_ms, run

from sparkbeam.io import WriteToSpark

USERS = 20
GROUPS = 4
WAIT_MS = 2000
WINDOW_MS = 3000
COLUMNS = ("team", "ending", "events", "amount", "copies", "total")
Sums = tuple[int, int, int]
"""Events, amount and copies."""
SCHEMA = ", ".join(f"{column} bigint" for column in COLUMNS)


def user(number: int) -> int:
    """Whose event it is."""
    return number * 7919 % USERS


def amount(number: int) -> int:
    """What an event is about."""
    return number * 31 % 997


def expected(events: int) -> Counter[tuple[int, ...]]:
    """The rows of the output, and how often they are there."""
    windows: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0, 0])
    for number in range(events):
        ending = ((in_order_ms(number) + WAIT_MS) // WINDOW_MS + 1) * WINDOW_MS - 1
        found = windows[user(number) % GROUPS, ending]
        for place, value in enumerate((1, amount(number), copies(number))):
            found[place] += value
    rows: Counter[tuple[int, ...]] = Counter()
    totals: Counter[int] = Counter()
    for (team, ending), values in sorted(windows.items()):
        totals[team] += values[0]
        rows[team, ending, *values, totals[team]] += 1
    return rows


class CountCopies(beam.DoFn):
    """How often each event is there, told a while later."""

    COPIES = CombiningValueStateSpec("copies", combine_fn=sum)
    DUE = TimerSpec("due", TimeDomain.WATERMARK)

    def process(
        self,
        element: tuple[int, None],
        now: Any = beam.DoFn.TimestampParam,
        found: Any = beam.DoFn.StateParam(COPIES),
        due: Any = beam.DoFn.TimerParam(DUE),
    ) -> None:
        found.add(1)
        due.set(now + Duration(micros=WAIT_MS * 1000))

    @on_timer(DUE)
    def tell(
        self, number: Any = beam.DoFn.KeyParam, found: Any = beam.DoFn.StateParam(COPIES)
    ) -> Iterator[tuple[int, Sums]]:
        yield user(number), (1, amount(number), found.read())
        found.clear()


class AddUp(beam.CombineFn):
    """The sums of each place."""

    def create_accumulator(self) -> Sums:
        return 0, 0, 0

    def add_input(self, sums: Sums, values: Sums) -> Sums:
        return sums[0] + values[0], sums[1] + values[1], sums[2] + values[2]

    def merge_accumulators(self, several: Iterable[Sums]) -> Sums:
        return functools.reduce(self.add_input, several, self.create_accumulator())

    def extract_output(self, sums: Sums) -> Sums:
        return sums


class RunningTotals(beam.DoFn):
    """The sums of each window, and the total of all windows so far, in their order."""

    WAITING = BagStateSpec("waiting", FastPrimitivesCoder())
    TOTAL = ReadModifyWriteStateSpec("total", VarIntCoder())
    END = TimerSpec("end", TimeDomain.WATERMARK)

    def process(
        self,
        element: tuple[int, Sums],
        now: Any = beam.DoFn.TimestampParam,
        waiting: Any = beam.DoFn.StateParam(WAITING),
        end: Any = beam.DoFn.TimerParam(END),
    ) -> None:
        waiting.add((now.micros, element[1]))
        end.set(Timestamp(micros=min(ending for ending, _ in waiting.read())))

    @on_timer(END)
    def tell(
        self,
        team: Any = beam.DoFn.KeyParam,
        now: Any = beam.DoFn.TimestampParam,
        waiting: Any = beam.DoFn.StateParam(WAITING),
        total: Any = beam.DoFn.StateParam(TOTAL),
        end: Any = beam.DoFn.TimerParam(END),
    ) -> Iterator[dict[str, int]]:
        rows = list(waiting.read())
        waiting.clear()
        ready = [values for ending, values in rows if ending <= now.micros]
        later = [row for row in rows if row[0] > now.micros]
        for row in later:
            waiting.add(row)
        if later:
            end.set(Timestamp(micros=min(ending for ending, _ in later)))
        sums = tuple(map(sum, zip(*ready, strict=True)))
        total.write((total.read() or 0) + sums[0])
        yield dict(zip(COLUMNS, (team, now.micros // 1000, *sums, total.read()), strict=True))


def build(pipeline: beam.Pipeline, events: int, rate: float, output: str) -> None:
    """The pipeline."""
    _ = (
        pipeline
        | "Events" >> Numbers(events, rate)
        | "By number" >> beam.Map(lambda number: (number, None)).with_output_types(tuple[int, None])
        | "Copies" >> beam.ParDo(CountCopies()).with_output_types(tuple[int, Sums])
        | "Windows" >> beam.WindowInto(FixedWindows(WINDOW_MS // 1000))
        | "Sums" >> beam.CombinePerKey(AddUp())
        | "All windows" >> beam.WindowInto(GlobalWindows())
        | "By team"
        >> beam.MapTuple(lambda user, sums: (user % GROUPS, sums)).with_output_types(
            tuple[int, Sums]
        )
        | "Totals" >> beam.ParDo(RunningTotals())
        | WriteToSpark("parquet", {"path": output}, SCHEMA)
    )


def written(output: Path) -> Counter[tuple[int, ...]]:
    """The rows of the output, and how often they are there."""
    table = ds.dataset(output, format="parquet").to_table(columns=list(COLUMNS))
    return Counter(zip(*table.to_pydict().values(), strict=True))


if __name__ == "__main__":
    run(build)
