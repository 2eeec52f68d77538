"""Steps over blocks put out what they do over single elements in Beam's own runner."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders.coders import IntervalWindowCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindows,
    IntervalWindow,
    NonMergingWindowFn,
    Sessions,
    SlidingWindows,
    TimestampedValue,
    WindowFn,
)
from in_process import StreamingRunner
from in_process_batch import BatchRunner

pytestmark = pytest.mark.usefixtures("by_value")


Reading = tuple[str, int]
"""A sensor and a second."""


class EvenAndOdd(NonMergingWindowFn):
    """Windows that depend on the element, too."""

    def assign(self, context: Any) -> list[IntervalWindow]:
        start = 100 * (context.element[1] % 2)
        return [IntervalWindow(start, start + 100)]

    def get_window_coder(self) -> Any:
        return IntervalWindowCoder()


class Yielding(beam.DoFn):
    """Gives what can and what cannot change, some of it with a time of its own."""

    def process(self, element: Reading) -> Iterator[Any]:
        yield element
        if element[1] % 7 == 0:
            yield [element[0]]
        if element[1] % 5 == 0:
            yield TimestampedValue(element, element[1] + 1000)


class Bundled(beam.DoFn):
    """Says at the start of a bundle what it needs for the elements."""

    def start_bundle(self) -> None:
        self._started = True

    def process(self, element: Any) -> list[Any] | None:
        return [element] * (2 if self._started else 0) if isinstance(element, tuple) else None


class Placed(beam.DoFn):
    """Tells the windowing of each element."""

    def process(
        self,
        element: Any,
        time: Any = beam.DoFn.TimestampParam,
        window: Any = beam.DoFn.WindowParam,
        pane: Any = beam.DoFn.PaneInfoParam,
    ) -> Iterator[str]:
        yield f"{element} {time} {window} {pane.timing}"


WINDOWS: dict[str, WindowFn] = {
    "global": GlobalWindows(),
    "fixed": FixedWindows(10),
    "shifted": FixedWindows(10, offset=3),
    "sliding": SlidingWindows(10, 5),
    "uneven": SlidingWindows(10, 3),
    "sessions": Sessions(2),
    "by element": EvenAndOdd(),
}

STEPS: dict[str, Any] = {
    "map": lambda: beam.Map(lambda e: (e[0], e[1])),
    "flat map": lambda: beam.FlatMap(lambda e: [e] * (e[1] % 3)),
    "filter": lambda: beam.Filter(lambda e: e[1] % 2),
    "yielding": lambda: beam.ParDo(Yielding()),
    "bundled": lambda: beam.ParDo(Bundled()),
}


def readings(step: str) -> beam.PTransform:
    """Elements with different times, before and after 1970."""
    seconds = [*range(-20, 60), *range(30, 45), *[57] * 20]
    made = [("ab"[second % 2], second) for second in seconds]
    rest = 0.2512345
    return f"{step}: create" >> beam.Create(made) | f"{step}: time" >> beam.Map(
        lambda e: TimestampedValue(e, e[1] + rest)
    )


def written(p: beam.Pipeline, folder: Path) -> None:
    """Writes what all steps make of elements in all windows."""
    found: dict[str, Any] = {}
    for name, windows in WINDOWS.items():
        elements = p | readings(name) | f"{name}: windows" >> beam.WindowInto(windows)
        for step, make in STEPS.items():
            label = f"{name}: {step}"
            found[label] = elements | label >> make() | f"{label}: placed" >> beam.ParDo(Placed())
    texts = [
        out
        | f"{label}: text" >> beam.Map(lambda s, label=label: f"{label}: {s}")
        | f"{label}: all" >> beam.WindowInto(GlobalWindows())
        for label, out in found.items()
    ]
    _ = texts | beam.Flatten() | beam.io.WriteToText(str(folder / "out"), shard_name_template="")


def lines(runner: Any, folder: Path) -> list[str]:
    with beam.Pipeline(runner, options=PipelineOptions()) as p:
        written(p, folder)
    return sorted((folder / "out").read_text().splitlines())


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return lines(FnApiRunner(), tmp_path_factory.mktemp("beam"))


def test_in_batch(expected: list[str], tmp_path: Path) -> None:
    assert lines(BatchRunner(), tmp_path) == expected


def test_in_streaming(expected: list[str], tmp_path: Path) -> None:
    assert lines(StreamingRunner(), tmp_path) == expected
