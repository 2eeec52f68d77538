"""Times of groups are those of Beam's own runner: in milliseconds, and at the ends of time."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import BytesCoder, WindowedValueCoder
from apache_beam.coders.coders import IntervalWindowCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindows,
    IntervalWindow,
    Sessions,
    SlidingWindows,
    TimestampCombiner,
    TimestampedValue,
    WindowFn,
)
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp
from apache_beam.utils.windowed_value import WindowedValue
from in_process import StreamingRunner
from in_process_batch import BatchRunner

from sparkbeam.wire.rounding import coded_hold, coded_micros, coded_span

FIRST, LAST = MIN_TIMESTAMP.micros, MAX_TIMESTAMP.micros
AROUND_ZERO = [-1_001_000, -1_000_500, -1_000_400, -1000, -500, -1, 0, 1, 400, 999, 1000, 251_234]
NEAR_THE_ENDS = [FIRST, FIRST + 1, FIRST + 999, FIRST + 1000, LAST - 5_000_001, LAST - 1, LAST]
TIMES = [*AROUND_ZERO, *NEAR_THE_ENDS]

WINDOWS: dict[str, WindowFn] = {
    "global": GlobalWindows(),
    "fixed": FixedWindows(10),
    "below a millisecond": FixedWindows(0.0005),
    "sliding": SlidingWindows(10, 5),
    "sessions": Sessions(10),
    "short sessions": Sessions(0.0007),
}
AT_END, EARLIEST, LATEST = (
    TimestampCombiner.OUTPUT_AT_EOW,
    TimestampCombiner.OUTPUT_AT_EARLIEST,
    TimestampCombiner.OUTPUT_AT_LATEST,
)
CASES = [
    ("global", EARLIEST),
    ("global", LATEST),
    ("fixed", AT_END),
    ("fixed", EARLIEST),
    ("below a millisecond", AT_END),
    ("sliding", LATEST),
    ("sessions", AT_END),
    ("sessions", EARLIEST),
    ("short sessions", LATEST),
]


@pytest.mark.parametrize("micros", TIMES)
def test_a_timestamp_is_rounded_as_by_the_coder(micros: int) -> None:
    coder = WindowedValueCoder(BytesCoder(), IntervalWindowCoder())
    element = WindowedValue(b"", Timestamp(micros=micros), ())
    assert coded_micros(micros) == coder.decode(coder.encode(element)).timestamp.micros


@pytest.mark.parametrize("micros", TIMES)
@pytest.mark.parametrize("length", [0, 500, 700, 1000, 10_000_000])
def test_a_window_is_rounded_as_by_the_coder(micros: int, length: int) -> None:
    window = IntervalWindow(Timestamp(micros=micros), Timestamp(micros=micros + length))
    coded = IntervalWindowCoder().decode(IntervalWindowCoder().encode(window))
    assert coded_span(window) == (coded.start.micros, coded.end.micros)


@pytest.mark.parametrize("micros", TIMES)
def test_a_hold_is_not_after_what_it_holds_the_watermark_for(micros: int) -> None:
    assert coded_hold(micros) <= min(micros, coded_micros(micros))


class Placed(beam.DoFn):
    """Tells a group, with its times in microseconds."""

    def process(
        self,
        group: tuple[str, Any],
        time: Any = beam.DoFn.TimestampParam,
        window: Any = beam.DoFn.WindowParam,
    ) -> Iterator[str]:
        case, values = group
        found = sorted(values) if not isinstance(values, int) else values
        yield f"{case}: {found} at {time.micros} in {window.end.micros}"


def placed(runner: Any, folder: Path, times: list[int]) -> list[str]:
    """What groups, and which sums around zero, there are of values with some times.

    Beam's own runner fails in sums near the end of time.
    """
    texts = []
    with beam.Pipeline(runner, options=PipelineOptions()) as p:
        made = p | beam.Create(list(enumerate(times))) | beam.MapTuple(_stamped)
        for name, combiner in CASES:
            if times != AROUND_ZERO and name == "short sessions":
                continue  # Which of those without length merge is by chance in Beam.
            case = f"{name}, {combiner}"
            windows = beam.WindowInto(WINDOWS[name], timestamp_combiner=combiner)
            pairs = made | f"{case}: key" >> beam.WithKeys(case) | f"{case}: windows" >> windows
            found = pairs | f"{case}: group" >> beam.GroupByKey()
            texts.append(found | f"{case}: placed" >> beam.ParDo(Placed()))
            if times == AROUND_ZERO:
                found = pairs | f"{case}: sum" >> beam.CombinePerKey(sum)
                texts.append(found | f"{case}: sums" >> beam.ParDo(Placed()))
        for name in "global", "fixed":
            elements = made | f"{name} windows" >> beam.WindowInto(WINDOWS[name])
            moved = elements | f"Reshuffle in {name}" >> beam.Reshuffle()
            numbers = moved | f"{name} number" >> beam.Map(lambda number, name=name: (name, number))
            texts.append(numbers | f"{name} placed" >> beam.ParDo(Placed()))
        everything = [
            text | f"{n}: all" >> beam.WindowInto(GlobalWindows()) for n, text in enumerate(texts)
        ]
        path = str(folder / "out")
        _ = everything | beam.Flatten() | beam.io.WriteToText(path, shard_name_template="")
    return sorted((folder / "out").read_text().splitlines())


def _stamped(number: int, micros: int) -> TimestampedValue:
    return TimestampedValue(number, Timestamp(micros=micros))


def test_in_streaming(tmp_path: Path) -> None:
    # A window that ends where time starts is over before it can have elements.
    for times in (AROUND_ZERO, [time for time in NEAR_THE_ENDS if time > FIRST + 999]):
        expected = placed(FnApiRunner(), tmp_path, times)
        assert placed(StreamingRunner(), tmp_path, times) == expected


def test_in_batch(tmp_path: Path) -> None:
    for times in (AROUND_ZERO, NEAR_THE_ENDS):
        expected = placed(FnApiRunner(), tmp_path, times)
        assert placed(BatchRunner(), tmp_path, times) == expected
