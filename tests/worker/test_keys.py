"""Keys are their encodings, whatever Python says of their equality."""

import decimal
import enum
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.coders import FastPrimitivesCoder, VarIntCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.combiners import CountCombineFn
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import (
    BagStateSpec,
    CombiningValueStateSpec,
    ReadModifyWriteStateSpec,
    SetStateSpec,
    TimerSpec,
    on_timer,
)
from in_process import StreamingRunner
from in_process_batch import BatchRunner

CODER = FastPrimitivesCoder()


class Level(enum.IntEnum):
    """Equal to an integer."""

    ONE = 1


class Name(str):
    """Equal to a text."""


class Point(NamedTuple):
    """Equal to a tuple."""

    x: Any
    y: Any


@dataclass(frozen=True)
class Place:
    """Equal to one with numbers that are equal."""

    x: Any


KEYS: list[Any] = [
    *(0, False, 0.0, -0.0, 1, True, 1.0, math.nan, math.inf, 2**70, float(2**70)),
    *(None, "", b"", "1", b"1", Name("1"), Level.ONE, np.int64(1), np.float64(1)),
    *((), (0,), (False,), (0.0,), (-0.0,), (1, 2), (1.0, 2), (True, 2), ((1, 2), 3), ((1.0, 2), 3)),
    *((1, "a"), (1, b"a"), (1, Name("a")), Point(1, 2), Point(1.0, 2)),
    *(decimal.Decimal(1), decimal.Decimal("1.0"), complex(1), frozenset([1]), frozenset([1.0])),
    *(Place(1), Place(1.0), Place(True)),
]
"""Of many of them Python says that they are equal."""


def _is_deterministic(key: Any) -> bool:
    try:
        return bool(CODER.as_deterministic_coder("key").encode(key))
    except TypeError:
        return False


GROUPABLE = [key for key in KEYS if _is_deterministic(key)]
"""Those that Beam takes for a key."""


def _told(key: Any, value: Any) -> str:
    return f"{type(key).__name__} {key!r}: {value}"


class Summed(beam.DoFn):
    """Tells all states of the key."""

    LAST = ReadModifyWriteStateSpec("last", VarIntCoder())
    BAG = BagStateSpec("bag", VarIntCoder())
    SET = SetStateSpec("set", VarIntCoder())
    SUM = CombiningValueStateSpec("sum", VarIntCoder(), CountCombineFn())

    def process(
        self,
        element: tuple[Any, int],
        last: Any = beam.DoFn.StateParam(LAST),
        bag: Any = beam.DoFn.StateParam(BAG),
        some: Any = beam.DoFn.StateParam(SET),
        total: Any = beam.DoFn.StateParam(SUM),
    ) -> Iterator[str]:
        key, value = element
        for state in (bag, some, total):
            state.add(1)
        found = (last.read(), sorted(bag.read()), sorted(some.read()), total.read())
        last.write(value)
        yield f"states {_told(key, found)}"


class Timed(beam.DoFn):
    """Tells how often the key was there when its timer fires."""

    COUNT = CombiningValueStateSpec("count", VarIntCoder(), CountCombineFn())
    END = TimerSpec("end", TimeDomain.WATERMARK)

    def process(
        self,
        element: tuple[Any, int],
        count: Any = beam.DoFn.StateParam(COUNT),
        end: Any = beam.DoFn.TimerParam(END),
    ) -> None:
        count.add(1)
        end.set(100)

    @on_timer(END)
    def fired(
        self, key: Any = beam.DoFn.KeyParam, count: Any = beam.DoFn.StateParam(COUNT)
    ) -> Iterator[str]:
        yield f"timer {_told(key, count.read())}"


def pairs(p: beam.Pipeline, label: str) -> beam.PCollection:
    """All keys three times each, next to those that are equal to them in Python."""
    start = p | f"{label}: start" >> beam.Create([None])
    return start | f"{label}: pairs" >> beam.FlatMap(
        lambda _: [(key, 1) for key in GROUPABLE for _ in range(3)]
    ).with_output_types(tuple[Any, int])


def by_key(runner: Any, folder: Path) -> list[str]:
    """What else there is by key: states, timers, sums, multimaps."""
    with beam.Pipeline(runner, options=PipelineOptions()) as p:
        looked_up = (
            p
            | beam.Create([None])
            | beam.FlatMap(
                lambda _, side: [f"lookup {_told(key, list(side[key]))}" for key in GROUPABLE],
                side=beam.pvalue.AsMultiMap(pairs(p, "side")),
            )
        )
        summed = pairs(p, "sum") | beam.CombinePerKey(sum)
        texts = (
            looked_up,
            summed | "sums" >> beam.MapTuple(lambda key, value: f"sum {_told(key, value)}"),
            pairs(p, "states") | beam.ParDo(Summed()).with_output_types(str),
            pairs(p, "timers") | "timed" >> beam.ParDo(Timed()).with_output_types(str),
        )
        path = str(folder / "found")
        _ = texts | "found" >> beam.Flatten() | beam.io.WriteToText(path, shard_name_template="")
    return sorted((folder / "found").read_text().splitlines())


def expected() -> list[str]:
    """The same where keys are their encodings; Beam's own runner mixes some of them."""
    found = []
    for key in GROUPABLE:
        found += [f"lookup {_told(key, [1, 1, 1])}", f"sum {_told(key, 3)}"]
        found += [
            f"states {_told(key, (None if n == 1 else 1, [1] * n, [1], n))}" for n in (1, 2, 3)
        ]
        found.append(f"timer {_told(key, 3)}")
    return sorted(found)


@pytest.mark.blocks(reason="Beam's own combine takes keys for one that Python says are equal")
@pytest.mark.parametrize("runner", [StreamingRunner, BatchRunner])
def test_each_key_has_its_own(runner: Any, tmp_path: Path) -> None:
    assert by_key(runner(), tmp_path) == expected()
