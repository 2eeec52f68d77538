"""A result that its function may change later does not wait for others."""

import collections
import dataclasses
import datetime
import enum
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.window import GlobalWindows, Sessions, TimestampedValue
from in_process import StreamingRunner
from in_process_batch import BatchRunner

from sparkbeam.worker.steps.ownership import OF_A_RESULT, OF_RESULTS, all_may_wait, may_wait


class Color(enum.Enum):
    RED = 1


class Point(NamedTuple):
    x: Any


@dataclasses.dataclass
class Place:
    x: Any


@dataclasses.dataclass(slots=True)
class Slotted:
    x: Any


FRESH: dict[str, Callable[[], Any]] = {
    "text": lambda: "a",
    "pair": lambda: ("a", 1),
    "nested": lambda: ("a", (1, [2, {"k": [3]}])),
    "list": lambda: [1],
    "dict": lambda: {"k": [1]},
    "set": lambda: {1},
    "bytearray": lambda: bytearray(b"a"),
    "array": lambda: np.zeros(3) + 1,
    "number": lambda: np.int64(3),
    "date": lambda: datetime.date(2020, 1, 1),
    "enum": lambda: Color.RED,
    "named tuple": lambda: Point([1]),
    "dataclass": lambda: Place([1]),
    "row": lambda: beam.Row(a=1, b=[2]),
    "timestamped": lambda: TimestampedValue(("a", [1]), 3),
}
"""What nobody else has."""


def waits(make: Callable[[], Any], element: Any = None) -> bool:
    block = []
    result = make()
    block.append(result)
    return may_wait(result, element, OF_A_RESULT)


@pytest.mark.parametrize("name", FRESH)
def test_what_nobody_else_has_may_wait(name: str) -> None:
    assert waits(FRESH[name])


def test_an_element_and_its_parts_may_wait() -> None:
    element = ("a", [1])
    assert waits(lambda: element, element)
    assert waits(lambda: element[1], element)
    assert waits(lambda: (3, element), element)
    assert waits(lambda: [element[1], 4], element)


def test_the_parts_of_a_list_wait_if_nobody_else_has_the_list() -> None:
    results: list[Any] = [[1], "a"]
    assert all_may_wait(results, None, OF_RESULTS)
    kept = results
    assert not all_may_wait(results, None, OF_RESULTS)
    assert not all_may_wait([kept], None, OF_RESULTS)


class Reused(beam.DoFn):
    """Gives out the same objects again and again."""

    def setup(self) -> None:
        self._kept = [[0], [0]]

    def process(self, element: int) -> list[list[int]]:
        self._kept[element % 2][0] = element
        return self._kept


class Yielded(beam.DoFn):
    """Likewise, as it is asked."""

    def process(self, element: int) -> Iterator[dict[str, int]]:
        found = {"n": 0}
        for n in range(3):
            found["n"] = element + n
            yield found


def buffered(make: Callable[[], Any], fill: Callable[[Any, int], Any]) -> Callable[[int], Any]:
    """A function that fills its own buffer each time."""
    made: list[Any] = []

    def call(element: int) -> Any:
        if not made:
            made.append(make())
        return fill(made[0], element)

    return call


def _filled(buffer: Any, element: int) -> Any:
    buffer[0] = element % 200
    return buffer


def _alternating(buffers: list[list[int]], element: int) -> list[int]:
    return _filled(buffers[element % 3], element)


def _placed(place: Any, element: int) -> Any:
    place.x = element
    return place


def _known_by(known: Callable[[Place], Any], change: Callable[[Any], None]) -> Callable[..., Any]:
    """A function whose results are changed by their attributes, or by weak references to them."""

    def fill(kept: list[Any], element: int) -> Place:
        for one in kept:
            change(one)
        place = Place(element)
        kept[:] = [known(place)]
        return place

    return buffered(list, fill)


def _by_reference(reference: Any) -> None:
    if (place := reference()) is not None:
        place.x = -1


STEPS: dict[str, Callable[[], beam.PTransform]] = {
    "numpy": lambda: beam.Map(buffered(lambda: np.zeros(1), lambda out, n: np.add(n, 1, out=out))),
    "view": lambda: beam.Map(buffered(lambda: np.zeros(2), lambda b, n: _filled(b, n)[:1])),
    "list": lambda: beam.Map(buffered(lambda: [0], _filled)),
    "alternating": lambda: beam.Map(buffered(lambda: [[0], [0], [0]], _alternating)),
    "dict": lambda: beam.Map(buffered(dict, _filled)),
    "counter": lambda: beam.Map(buffered(collections.Counter, _filled)),
    "in a list": lambda: beam.Map(buffered(lambda: [0], lambda b, n: [_filled(b, n)])),
    "in a dict": lambda: beam.Map(buffered(lambda: [0], lambda b, n: {"k": _filled(b, n)})),
    "a part": lambda: beam.Map(buffered(lambda: {"k": [0]}, lambda b, n: _filled(b["k"], n))),
    "objects of numpy": lambda: beam.Map(
        buffered(lambda: [0], lambda b, n: np.array([_filled(b, n), None], dtype=object))
    ),
    "dataclass": lambda: beam.Map(buffered(lambda: Place(0), _placed)),
    "slots": lambda: beam.Map(buffered(lambda: Slotted(0), _placed)),
    "attributes": lambda: beam.Map(_known_by(vars, lambda known: known.update(x=-1))),
    "weak reference": lambda: beam.Map(_known_by(weakref.ref, _by_reference)),
    "pair": lambda: beam.Map(buffered(lambda: [0], lambda b, n: ("k", _filled(b, n)))),
    "row": lambda: beam.Map(buffered(lambda: [0], lambda b, n: beam.Row(a=_filled(b, n)))),
    "bytearray": lambda: beam.Map(buffered(lambda: bytearray(1), _filled)),
    "flat map": lambda: beam.FlatMap(buffered(lambda: [0], lambda b, n: [_filled(b, n)] * 2)),
    "tuple": lambda: beam.FlatMap(buffered(lambda: [0], lambda b, n: (_filled(b, n), 1))),
    "stamped": lambda: beam.Map(
        buffered(lambda: [0], lambda b, n: TimestampedValue(_filled(b, n), n))
    ),
    "dofn": lambda: beam.ParDo(Reused()),
    "generator": lambda: beam.ParDo(Yielded()),
}


def told(runner: Any, folder: Path) -> list[str]:
    """What the step after each of the steps sees, and what a combine does."""
    with beam.Pipeline(runner, options=PipelineOptions()) as p:
        numbers = p | beam.Create([None]) | beam.FlatMap(lambda _: range(300))
        texts = []
        for name, step in STEPS.items():
            found = numbers | name >> step()
            texts.append(found | f"{name}: text" >> beam.Map(lambda e, n=name: f"{n}: {e}"))
        for windows in (GlobalWindows(), Sessions(10)):
            sums = (
                numbers
                | f"buffer {windows}"
                >> beam.Map(buffered(lambda: [0], lambda b, n: (n % 3, _filled(b, n))))
                | f"into {windows}" >> beam.WindowInto(windows)
                | f"sums {windows}"
                >> beam.CombinePerKey(lambda lists: [sum(found[0] for found in lists)])
                | f"told {windows}" >> beam.Map(str)
            )
            texts.append(sums | f"all {windows}" >> beam.WindowInto(GlobalWindows()))
        path = str(folder / "out")
        _ = texts | beam.Flatten() | beam.io.WriteToText(path, shard_name_template="")
    return sorted((folder / "out").read_text().splitlines())


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return told(FnApiRunner(), tmp_path_factory.mktemp("beam"))


def test_in_batch(expected: list[str], tmp_path: Path) -> None:
    assert told(BatchRunner(), tmp_path) == expected


def test_in_streaming(expected: list[str], tmp_path: Path) -> None:
    assert told(StreamingRunner(), tmp_path) == expected
