"""Trades, each with the quote before it, by sorted multimap state, into SQLite by micro-batch.

Of the numbers of a user those that three divides are quotes, the others trades. Both wait in
sorted state. Each second of event time a timer puts out the trades that the watermark has passed,
in order, each with the last quote at or before it, and removes what is no longer needed.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import ordered
from apache_beam.coders import VarIntCoder
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import TimerSpec, on_timer
from apache_beam.utils.timestamp import Timestamp
from ordered import COLUMNS, TICK_MS, of_users, time_ms, user, written
from paced import copies, run

from sparkbeam.coders import OrderedIntCoder
from sparkbeam.state import SortedMultimapStateSpec

OPTIONS = (f"--spark_py_files={ordered.__file__}",)
NO_QUOTE = -1

__all__ = ["build", "expected", "written"]


def is_quote(number: int) -> bool:
    """Whether a number is a quote."""
    return number % 3 == 0


def expected(events: int) -> Counter[tuple[int, ...]]:
    """The rows of the output, and how often they are there."""
    rows: Counter[tuple[int, ...]] = Counter()
    quotes: dict[int, int] = {}
    for number in sorted(range(events), key=time_ms):
        if is_quote(number):
            quotes[user(number)] = number
        else:
            rows[user(number), number, quotes.get(user(number), NO_QUOTE)] += copies(number)
    return rows


class Matched(beam.DoFn):
    """The trades of a user in the order of their times, each with its quote."""

    TRADES = SortedMultimapStateSpec("trades", OrderedIntCoder(), VarIntCoder())
    QUOTES = SortedMultimapStateSpec("quotes", OrderedIntCoder(), VarIntCoder())
    DUE = TimerSpec("due", TimeDomain.WATERMARK)

    def process(
        self,
        element: tuple[int, int],
        trades: Any = beam.DoFn.StateParam(TRADES),
        quotes: Any = beam.DoFn.StateParam(QUOTES),
        due: Any = beam.DoFn.TimerParam(DUE),
    ) -> None:
        number = element[1]
        (quotes if is_quote(number) else trades).put(time_ms(number), number)
        self._set(trades, due)

    @on_timer(DUE)
    def tell(
        self,
        key: Any = beam.DoFn.KeyParam,
        now: Any = beam.DoFn.TimestampParam,
        trades: Any = beam.DoFn.StateParam(TRADES),
        quotes: Any = beam.DoFn.StateParam(QUOTES),
        due: Any = beam.DoFn.TimerParam(DUE),
    ) -> Iterator[dict[str, int]]:
        limit = Timestamp.of(now).micros // 1000 - 1
        for at, number in trades.entries_until(limit):
            quote = quotes.floor(at)
            matched = NO_QUOTE if quote is None else quote[1][-1]
            yield dict(zip(COLUMNS, (key, number, matched), strict=True))
        trades.remove_until(limit)
        last = quotes.floor(limit)
        if last is not None:
            quotes.remove_until(last[0] - 1)
        self._set(trades, due)

    def _set(self, trades: Any, due: Any) -> None:
        first = trades.first()
        if first is not None:
            due.set(Timestamp(micros=(first[0] // TICK_MS + 1) * TICK_MS * 1000))


def build(pipeline: beam.Pipeline, events: int, rate: float, output: str) -> None:
    """The pipeline."""
    of_users(pipeline, events, rate, output, Matched())


if __name__ == "__main__":
    run(build)
