"""Stateful DoFns with map states, in batch and in streaming."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import coders
from apache_beam.runners.interactive.interactive_runner import InteractiveRunner
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import TimerSpec, on_timer
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from in_process import Crashes, Measured, Spark, rounds, streaming_pipeline
from in_process_batch import BatchRunner
from lines import Lines
from remembering import keys
from test_changes import Program, program  # noqa: F401

from sparkbeam.coders import OrderedIntCoder, OrderedTimestampCoder
from sparkbeam.errors import ConfigurationError
from sparkbeam.state import MapStateSpec, MultimapStateSpec, SortedMultimapStateSpec

SYMBOLS = ("a", "b", "c")
TICKS = 6


class LastQuotes(beam.DoFn):
    """Each trade with the last price at or before it, when the watermark is past the trade.

    An element is a symbol and ("quote" or "trade", seconds, price or name of the trade).
    """

    QUOTES = SortedMultimapStateSpec("quotes", OrderedIntCoder(), coders.VarIntCoder())
    TRADES = SortedMultimapStateSpec("trades", OrderedIntCoder(), coders.StrUtf8Coder())
    COUNTS = MapStateSpec("counts", coders.StrUtf8Coder(), coders.VarIntCoder())
    SEEN = MultimapStateSpec("seen", coders.StrUtf8Coder(), coders.VarIntCoder())
    DUE = TimerSpec("due", TimeDomain.WATERMARK)

    def process(
        self,
        element: Any,
        quotes: Any = beam.DoFn.StateParam(QUOTES),
        trades: Any = beam.DoFn.StateParam(TRADES),
        counts: Any = beam.DoFn.StateParam(COUNTS),
        seen: Any = beam.DoFn.StateParam(SEEN),
        due: Any = beam.DoFn.TimerParam(DUE),
    ) -> None:
        _, (kind, at, what) = element
        counts.put(kind, counts.get(kind, 0) + 1)
        seen.put(kind, at)
        (quotes if kind == "quote" else trades).put(at, what)
        due.set(trades.first()[0] + 1 if not trades.is_empty() else at + 1)

    @on_timer(DUE)
    def ripe(
        self,
        key: Any = beam.DoFn.KeyParam,
        now: Any = beam.DoFn.TimestampParam,
        quotes: Any = beam.DoFn.StateParam(QUOTES),
        trades: Any = beam.DoFn.StateParam(TRADES),
        counts: Any = beam.DoFn.StateParam(COUNTS),
        seen: Any = beam.DoFn.StateParam(SEEN),
        due: Any = beam.DoFn.TimerParam(DUE),
    ) -> Iterator[Any]:
        limit = int(now) - 1
        for at, name in trades.entries_until(limit):
            quote = quotes.floor(at)
            assert len(list(seen.get("trade"))) == counts.get("trade")
            yield key, name, quote and quote[1][-1]
        trades.remove_until(limit)
        quote = quotes.floor(limit)
        if quote is not None:
            quotes.remove_until(quote[0] - 1)
        rest = trades.first()
        if rest is not None:
            due.set(rest[0] + 1)


def elements() -> list[tuple[str, tuple[str, int, Any]]]:
    """In an order in which no trade comes before its quote."""
    found: list[Any] = []
    for tick in range(TICKS):
        for number, symbol in enumerate(SYMBOLS):
            if (tick + number) % 3:
                found.append((symbol, ("quote", 10 * tick, 100 * tick + number)))
            found.append((symbol, ("trade", 10 * tick + number, f"{symbol}{tick}")))
    return found


def expected() -> list[Any]:
    found = []
    for number, symbol in enumerate(SYMBOLS):
        last = None
        for tick in range(TICKS):
            last = 100 * tick + number if (tick + number) % 3 else last
            found.append((symbol, f"{symbol}{tick}", last))
    return sorted(found)


def stream() -> Any:
    events = TestStream()
    for start in range(0, len(elements()), 5):
        some = elements()[start : start + 5]
        events = events.add_elements([TimestampedValue(e, e[1][1]) for e in some[::-1]])
        events = events.advance_watermark_to(max(0, some[0][1][1] // 10 * 10))
    return events.advance_watermark_to_infinity()


def run(pipeline: beam.Pipeline, folder: Path, source: Any) -> list[Any]:
    lines = Lines(folder / "out")
    _ = pipeline | source | beam.ParDo(LastQuotes()) | "Note" >> beam.Map(lines.note)
    pipeline.run().wait_until_finish()
    # A line is written once for each attempt.
    return sorted({eval(line) for line in lines.read()})


def streaming(spark: Spark, folder: Path) -> beam.Pipeline:
    return streaming_pipeline(spark, folder / "checkpoint")


def test_in_batch(tmp_path: Path) -> None:
    found = run(beam.Pipeline(BatchRunner()), tmp_path, beam.Create(elements(), reshuffle=False))
    assert found == expected()


@rounds(3)
def test_a_crash_after_each_step_changes_nothing(tmp_path: Path) -> None:
    spark = Spark(crashes := Crashes(), attempts=2)
    found = crashes.until_it_ends(lambda: run(streaming(spark, tmp_path), tmp_path, stream()))
    assert found == expected()
    assert len(crashes.points) > 20


@rounds(3)
def test_windows_that_have_expired_leave_nothing(tmp_path: Path) -> None:
    spark = Measured(keys)
    p = streaming(spark, tmp_path)
    events = TestStream()
    for number in range(40):
        events = events.add_elements([TimestampedValue(number, 30 * number)])
        events = events.advance_watermark_to(30 * number)

    class Keep(beam.DoFn):
        SPECS = (
            SortedMultimapStateSpec("sorted", OrderedIntCoder(), coders.BytesCoder()),
            MapStateSpec("map", coders.VarIntCoder(), coders.BytesCoder()),
            MultimapStateSpec("multimap", coders.VarIntCoder(), coders.BytesCoder()),
        )

        def process(
            self,
            element: Any,
            one: Any = beam.DoFn.StateParam(SPECS[0]),
            two: Any = beam.DoFn.StateParam(SPECS[1]),
            three: Any = beam.DoFn.StateParam(SPECS[2]),
        ) -> None:
            for number in range(300):
                for state in (one, two, three):
                    state.put(number, b"x" * 100)

    pairs = p | events | beam.Map(lambda n: (n, n)) | beam.WindowInto(FixedWindows(10))
    _ = pairs | beam.ParDo(Keep())
    p.run().wait_until_finish()
    assert 0 < max(spark.found) <= 5
    (checkpoint,) = spark.checkpoints.values()
    assert checkpoint.entries < 20


def keeping(spec: Any) -> Any:
    class Keep(beam.DoFn):
        def process(self, element: Any, state: Any = beam.DoFn.StateParam(spec)) -> Iterator[str]:
            state.put(element[1], b"")
            yield str(len(list(state.keys())))

    return lambda numbers: (
        numbers | "Key" >> beam.Map(lambda n: ("all", n)) | "Keep" >> beam.ParDo(Keep())
    )


SORTED = SortedMultimapStateSpec("s", OrderedIntCoder(), coders.BytesCoder())


def test_state_goes_on_after_a_restart(program: Program) -> None:  # noqa: F811
    assert program.run(keeping(SORTED), keeping(SORTED)) == ["1", "2", "3", "4", "5", "6"]


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (SortedMultimapStateSpec("s", OrderedTimestampCoder(), coders.BytesCoder()), "Timestamp"),
        (SortedMultimapStateSpec("s", OrderedIntCoder(), coders.PickleCoder()), "pickle|Pickle"),
        (MapStateSpec("s", OrderedIntCoder(), coders.BytesCoder()), "map of"),
    ],
    ids=["key", "value", "kind"],
)
def test_state_of_another_kind_is_refused(
    program: Program,  # noqa: F811
    other: Any,
    told: str,
) -> None:
    with pytest.raises(ConfigurationError, match=f"(?s)state 's'.*({told})"):
        program.run(keeping(SORTED), keeping(other))


def test_interactive_beam_over_this_runner_is_none() -> None:
    p = beam.Pipeline(InteractiveRunner(BatchRunner()))
    _ = p | beam.Create([("a", 1)]) | "Keep" >> beam.ParDo(LastQuotes())


def test_keys_whose_coder_is_not_deterministic_get_one() -> None:
    spec = MapStateSpec("s", coders.FastPrimitivesCoder(), coders.VarIntCoder())
    assert spec.key_coder.is_deterministic()
