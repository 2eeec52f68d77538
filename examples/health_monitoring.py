"""Which machines can be trusted, and when? A WindowFn of one's own over events from a file.

Machines report HEALTHY every few minutes, and FAILURE when something breaks. A HEALTHY event tells
of the ten minutes in which it comes; after a FAILURE a machine is not trusted for a while, so that
it tells of its ten minutes and of the next three times ten. :class:`HealthWindows` says just that,
and the rest is an ordinary count per machine and window::

    python examples/health_monitoring.py
    python examples/health_monitoring.py --streaming
    python examples/health_monitoring.py --input=events.jsonl --minutes=5 --after_failure=2
    python examples/health_monitoring.py --runner=DirectRunner

The picture needs Altair and vl-convert: ``pip install 'sparkbeam[nexmark]'`` brings them.
"""

import argparse
import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, cast

import apache_beam as beam
from apache_beam.coders import Coder
from apache_beam.coders.coders import IntervalWindowCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import (
    GlobalWindows,
    IntervalWindow,
    NonMergingWindowFn,
    TimestampedValue,
    WindowFn,
)
from apache_beam.utils.timestamp import Duration, Timestamp
from rich.console import Console

SAMPLE = Path(__file__).parent / "data" / "health-sample.jsonl"
COLORS = {"healthy": "#59a14f", "not trusted": "#f28e2b", "failing": "#e15759"}


class Event(NamedTuple):
    """What a machine has reported."""

    machine: str
    kind: str


beam.coders.registry.register_coder(Event, beam.coders.RowCoder)


class HealthWindows(NonMergingWindowFn):
    """Fixed windows; a failure is in its own one and in some of those after it.

    Args:
        size: of a window in seconds.
        after_failure: in how many later windows a failure counts.
    """

    def __init__(self, size: float, after_failure: int = 3) -> None:
        self.size = Duration.of(size)
        self.after_failure = after_failure

    def assign(self, context: WindowFn.AssignContext) -> list[IntervalWindow]:
        """The windows of an :class:`Event`."""
        event = cast("Event", context.element)
        first = context.timestamp - context.timestamp % self.size
        later = self.after_failure if event.kind == "FAILURE" else 0
        return [
            IntervalWindow(first + self.size * number, first + self.size * (number + 1))
            for number in range(later + 1)
        ]

    def get_window_coder(self) -> Coder:
        """That of windows with a start and an end."""
        return IntervalWindowCoder()

    def __eq__(self, other: object) -> bool:
        """Whether both put all events into the same windows."""
        return isinstance(other, HealthWindows) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self.size, self.after_failure))


class CountKinds(beam.CombineFn):
    """How many events of a window are healthy ones, and how many are failures."""

    def create_accumulator(self) -> tuple[int, int]:
        """No events."""
        return 0, 0

    def add_input(self, counts: tuple[int, int], kind: str) -> tuple[int, int]:
        """One event more."""
        healthy, failures = counts
        return (healthy, failures + 1) if kind == "FAILURE" else (healthy + 1, failures)

    def merge_accumulators(self, accumulators: Iterable[tuple[int, int]]) -> tuple[int, int]:
        """The events of all of them."""
        healthy, failures = zip(*accumulators, strict=True)
        return sum(healthy), sum(failures)

    def extract_output(self, counts: tuple[int, int]) -> tuple[int, int]:
        """The two counts."""
        return counts


def parse(line: str) -> TimestampedValue[Event]:
    """An event at its time."""
    event = json.loads(line)
    at = Timestamp.from_utc_datetime(datetime.fromisoformat(event["at"]))
    return TimestampedValue(Event(event["machine"], event["kind"]), at)


def to_line(
    found: tuple[str, tuple[int, int]], window: Any = beam.DoFn.WindowParam
) -> dict[str, Any]:
    """A line of the output."""
    machine, (healthy, failures) = found
    state = "healthy" if not failures else "not trusted" if healthy else "failing"
    return {
        "machine": machine,
        "start": window.start.to_utc_datetime().isoformat() + "Z",
        "end": window.end.to_utc_datetime().isoformat() + "Z",
        "healthy": healthy,
        "failures": failures,
        "state": state,
    }


def draw(lines: list[dict[str, Any]], file: Path) -> None:
    """Draws the state of each machine over time, with the number of failures, as SVG."""
    import altair as alt

    times = {
        "x": alt.X("utcyearmonthdatehoursminutes(start):T", title="time (UTC)"),
        "x2": "end:T",
        "y": alt.Y("machine:N", title=None),
    }
    scale = alt.Scale(domain=list(COLORS), range=list(COLORS.values()))
    chart = alt.Chart(alt.Data(values=lines))
    boxes = chart.mark_rect(stroke="white").encode(
        color=alt.Color("state:N", scale=scale, title=None), **times
    )
    numbers = (
        chart.transform_filter("datum.failures > 0")
        .transform_calculate(middle="(toDate(datum.start) + toDate(datum.end)) / 2")
        .mark_text()
        .encode(x="middle:T", y="machine:N", text="failures:Q")
    )
    layered = (boxes + numbers).properties(
        width=720, title="machines by window, with the failures that count in it"
    )
    layered.save(str(file))


def build(
    pipeline: beam.Pipeline, events: str, windows: HealthWindows, output: Path
) -> beam.PCollection[str]:
    """Events of a file into the counts and the state of each machine and window, as JSON lines."""
    return (
        pipeline
        | "Read" >> beam.io.ReadFromText(events)
        | "Parse" >> beam.Map(parse).with_output_types(Event)
        | "Windows" >> beam.WindowInto(windows)
        | "By machine" >> beam.Map(lambda event: (event.machine, event.kind))
        | "Count" >> beam.CombinePerKey(CountKinds())
        | "State" >> beam.Map(to_line)
        | "Line" >> beam.Map(json.dumps)
        | "All" >> beam.WindowInto(GlobalWindows())
        | "Write" >> beam.io.WriteToText(str(output), file_name_suffix=".jsonl", num_shards=1)
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the pipeline, then draws what it wrote."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--input", default=str(SAMPLE), help="events, one JSON object a line")
    parser.add_argument("--output", default="out/health", help="the path, without its ending")
    parser.add_argument("--minutes", type=float, default=10, help="of a window")
    parser.add_argument(
        "--after_failure", type=int, default=3, help="later windows in which a failure counts"
    )
    parser.add_argument("--runner", default="sparkbeam.SparkRunner")
    arguments, beam_arguments = parser.parse_known_args(argv)
    output = Path(arguments.output)
    output.parent.mkdir(parents=True, exist_ok=True)
    windows = HealthWindows(60 * arguments.minutes, arguments.after_failure)
    with beam.Pipeline(arguments.runner, PipelineOptions(beam_arguments)) as pipeline:
        build(pipeline, arguments.input, windows, output)
    written = output.with_name(f"{output.name}-00000-of-00001.jsonl")
    lines = [json.loads(line) for line in written.read_text(encoding="utf-8").splitlines()]
    picture = output.with_suffix(".svg")
    draw(lines, picture)
    bad = sum(line["failures"] > 0 for line in lines)
    Console().print(
        f"{bad:,} of {len(lines):,} windows of machines are not healthy; drawn: {picture}",
        soft_wrap=True,
    )


if __name__ == "__main__":
    main()
