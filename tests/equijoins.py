"""Joins of all kinds in one pipeline, for whichever runner; workers import it."""

import itertools
import json
import operator
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.coders.coders import IntervalWindowCoder
from apache_beam.metrics.metric import MetricsFilter
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindows,
    IntervalWindow,
    NonMergingWindowFn,
    Sessions,
    SlidingWindows,
    TimestampCombiner,
    TimestampedValue,
)

from sparkbeam import Join
from sparkbeam.plan.join_payload import HOWS


class Sale(NamedTuple):
    """An element of a class of one's own."""

    item_id: int | None
    price: float


class Item(NamedTuple):
    """What it is of."""

    item_id: int | None
    names: list[str]


SALES = [Sale(1, 2.0), Sale(1, 2.0), Sale(2, 3.5), Sale(None, 1.0), Sale(7, float("inf"))]
ITEMS = [Item(1, ["a"]), Item(1, ["b"]), Item(None, []), Item(9, ["c"])]
DICTS = [{"item_id": 1, "x": None}, {"item_id": 1.0, "x": 1}, {"item_id": None}, {"item_id": True}]
ROWS = [beam.Row(item_id=1, b=b"\0"), beam.Row(item_id=3, b=b"")]
ODD: list[Any] = [
    *(0, 0.0, False, None, "", b"", (), (1, None), -(2**70), float("nan"), 2**31 - 1, -1),
    *("\0", b"\1", b"\2", b"\3", "x" * 300, 0, None),
]

Joins = Callable[[beam.Pipeline], Iterator[tuple[str, Any]]]
"""Makes joins in a pipeline, with their labels."""


def made(p: beam.Pipeline, label: str, left: list[Any], right: list[Any]) -> tuple[Any, Any]:
    return (
        p | f"{label}: left" >> beam.Create(left, reshuffle=False),
        p | f"{label}: right" >> beam.Create(right, reshuffle=False),
    )


class Placed(beam.DoFn):
    """Tells an element with its windowing."""

    def process(
        self,
        element: Any,
        time: Any = beam.DoFn.TimestampParam,
        window: Any = beam.DoFn.WindowParam,
        pane: Any = beam.DoFn.PaneInfoParam,
    ) -> Iterator[str]:
        yield f"{element!r} at {time.micros // 1000} in {window!r}, {pane.timing}"


def timed(values: list[Any], step: float) -> list[Any]:
    return [TimestampedValue(value, number * step) for number, value in enumerate(values)]


class ByLetter(NonMergingWindowFn):
    """Windows of a user's own, by the element; no two of these are equal.

    Args:
        size: of a window, in seconds.
    """

    def __init__(self, size: int) -> None:
        self.size = size

    def assign(self, context: Any) -> list[IntervalWindow]:
        return [IntervalWindow(0, self.size * (2 if context.element == "a" else 1))]

    def get_window_coder(self) -> Any:
        return IntervalWindowCoder()


INTO: dict[str, Any] = {
    "own": lambda: beam.WindowInto(ByLetter(5)),
    "fixed": lambda: beam.WindowInto(FixedWindows(3)),
    "sliding": lambda: beam.WindowInto(SlidingWindows(4, 2)),
    "sessions": lambda: beam.WindowInto(Sessions(2)),
    "latest": lambda: beam.WindowInto(
        FixedWindows(3), timestamp_combiner=TimestampCombiner.OUTPUT_AT_LATEST
    ),
    "triggers": lambda: beam.WindowInto(
        FixedWindows(3),
        trigger=AfterWatermark(early=AfterCount(100)),
        accumulation_mode=AccumulationMode.DISCARDING,
    ),
}


def cases() -> Iterator[tuple[str, Callable[[beam.Pipeline], Any]]]:
    """Joins by their labels."""
    sides: dict[str, tuple[list[Any], list[Any], Any]] = {
        "tuples": (SALES, ITEMS, "item_id"),
        "dicts": (DICTS, ROWS, "item_id"),
        "odd": ([(n, k) for n, k in enumerate(ODD)], ODD, {"l": lambda e: e[1], "r": lambda e: e}),
        "none on the left": ([], ITEMS, "item_id"),
        "none on the right": (SALES, [], "item_id"),
        "none at all": ([], [], "item_id"),
        "None": ([None, 1, None], [None, 2], lambda e: e),
    }
    for (name, (left, right, on)), how in itertools.product(sides.items(), HOWS):
        if name not in ("tuples", "odd") and how not in ("left", "outer", "anti"):
            continue

        def join(
            p: beam.Pipeline, label: str = f"{name}, {how}", args: Any = (left, right, on, how)
        ) -> Any:
            left, right, on, how = args
            a, b = made(p, label, left, right)
            return {"l": a, "r": b} | label >> Join(on=on, how=how)

        yield f"{name}, {how}", join
    for name, how in itertools.product(INTO, HOWS):
        if name != "sliding" and how not in ("outer", "semi"):
            continue

        def windowed(
            p: beam.Pipeline, label: str = f"{name}, {how}", args: Any = (name, how)
        ) -> Any:
            name, how = args
            a, b = made(p, label, timed([*"abcabca", None], 0.7), timed([*"caab", None, "c"], 1.3))
            sides = a | f"{label} into" >> INTO[name](), b | f"{label} also" >> INTO[name]()
            return sides | label >> Join(on=lambda e: e, how=how, result=lambda *e: e)

        yield f"{name}, {how}", windowed


def results(runner: Any, folder: Path, only: str = "", *options: str) -> dict[str, list[str]]:
    """What comes out of all of them, in any order."""

    def joins(p: beam.Pipeline) -> Iterator[tuple[str, Any]]:
        return ((label, join(p)) for label, join in cases() if only in label)

    return texts(runner, folder, joins, *options)


def texts(runner: Any, folder: Path, joins: Joins, *options: str) -> dict[str, list[str]]:
    """Results of joins, by their labels, in any order."""
    with beam.Pipeline(runner, options=PipelineOptions([*options])) as p:
        placed = [
            joined
            | f"{label}: placed" >> beam.ParDo(Placed())
            | f"{label}: text" >> beam.Map(lambda text, label=label: json.dumps([label, text]))
            | f"{label}: all" >> beam.WindowInto(GlobalWindows())
            for label, joined in joins(p)
        ]
        placed | beam.Flatten() | beam.io.WriteToText(str(folder / "out"), shard_name_template="")
    found: dict[str, list[str]] = {}
    for line in (folder / "out").read_text().splitlines():
        label, text = json.loads(line)
        found.setdefault(label, []).append(text)
    return {label: sorted(lines) for label, lines in found.items()}


def counted(element: Any) -> Any:
    """Counts an element."""
    beam.metrics.Metrics.counter("equijoins", "seen").inc()
    return element


def seen(result: Any) -> list[int]:
    """Return the number of elements counted in each of the steps that count."""
    ours = MetricsFilter().with_namespace("equijoins")
    return sorted(n.committed for n in result.metrics().query(ours)["counters"])


def matched(
    left: list[Any], right: list[Any], how: str, same: Callable[[Any, Any], bool] = operator.eq
) -> list[tuple[Any, Any]]:
    """Join two sides that are their own keys, by a nested loop."""

    def alone(values: list[Any], others: list[Any]) -> list[Any]:
        return [value for value in values if not any(same(value, other) for other in others)]

    pairs = [(one, other) for one in left for other in right if same(one, other)]
    lonely = alone(left, right)
    rest = [(None, other) for other in alone(right, left)]
    return {
        "inner": pairs,
        "left": [*pairs, *((one, None) for one in lonely)],
        "right": [*pairs, *rest],
        "outer": [*pairs, *((one, None) for one in lonely), *rest],
        "semi": [(one, None) for one in alone(left, lonely)],
        "anti": [(one, None) for one in lonely],
    }[how]


def mostly_seven(share: int) -> Iterator[int]:
    """Numbers below a thousand, half of them the same."""
    for number in range(20_000):
        yield share * number % 1000 if number % 2 else 7
