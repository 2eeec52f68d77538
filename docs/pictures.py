"""Draws docs/windows-*.svg, the pictures of docs/windows.md, from what a pipeline puts out.

Run with ``python docs/pictures.py``. A test compares the pictures with those of another run.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindows,
    Sessions,
    SlidingWindows,
    TimestampedValue,
    WindowFn,
)

FOLDER = Path(__file__).parent

EVENTS = {"ada": (1, 2, 7, 13, 14, 24), "bob": (4, 11, 17, 18, 21, 29)}
"""The users of a page, and the seconds at which they click."""

KINDS: dict[str, tuple[str, WindowFn]] = {
    "fixed": ("FixedWindows(10)", FixedWindows(10)),
    "sliding": ("SlidingWindows(10, 5)", SlidingWindows(10, 5)),
    "sessions": ("Sessions(5)", Sessions(5)),
}
"""The pictures, with what each shows."""

_SECOND, _LEFT, _END, _FIRST = 19, 52, 35, -5
_BAR, _ROW, _TOP = 16, 20, 30
_INK, _SOFT, _COLOURS = "#1f2328", "#8c959f", {"ada": "#0860ca", "bob": "#b34700"}


class Bar(NamedTuple):
    """A window of a user, and the clicks in it."""

    user: str
    start: float
    end: float
    clicks: tuple[int, ...]


class _Bars(beam.DoFn):
    """A bar for each group."""

    def process(
        self, group: tuple[str, Iterable[tuple[str, int]]], window: Any = beam.DoFn.WindowParam
    ) -> Iterator[str]:
        user, clicks = group
        start, end = float(window.start), float(window.end)
        yield json.dumps(Bar(user, start, end, tuple(sorted(at for _, at in clicks))))


def bars(window_fn: WindowFn, runner: Any) -> list[Bar]:
    """The windows that a pipeline groups the clicks in, in their order."""
    with TemporaryDirectory() as folder:
        pipeline = beam.Pipeline(runner)
        (
            pipeline
            | beam.Create([(user, at) for user, times in EVENTS.items() for at in times])
            | "Stamp" >> beam.Map(lambda click: TimestampedValue((click[0], click), click[1]))
            | "Windows" >> beam.WindowInto(window_fn)
            | beam.GroupByKey()
            | beam.ParDo(_Bars())
            | "All" >> beam.WindowInto(GlobalWindows())
            | beam.io.WriteToText(f"{folder}/bars")
        )
        pipeline.run().wait_until_finish()
        lines = [line for file in Path(folder).iterdir() for line in file.read_text().splitlines()]
    found = [Bar(user, start, end, tuple(at)) for user, start, end, at in map(json.loads, lines)]
    return sorted(found)


def picture(title: str, found: list[Bar]) -> str:
    """The clicks as dots on the line of their user, and below it the windows with their counts."""
    top = _TOP
    parts: list[str] = []
    for user, times in EVENTS.items():
        lanes = _lanes([bar for bar in found if bar.user == user])
        colour = _COLOURS[user]
        parts.append(f'<text x="8" y="{top + 4}" fill="{colour}">{user}</text>')
        parts.append(
            f'<line x1="{_x(_FIRST)}" x2="{_x(_END)}" y1="{top}" y2="{top}" stroke="{_SOFT}"/>'
        )
        parts += [f'<circle cx="{_x(at)}" cy="{top}" r="4" fill="{colour}"/>' for at in times]
        for number, lane in enumerate(lanes):
            parts += [_bar(bar, top + 10 + number * _ROW, colour) for bar in lane]
        top += 10 + len(lanes) * _ROW + 22
    height = top + 8
    marks = [
        f'<text x="{_x(at)}" y="{height - 8}" text-anchor="middle" fill="{_SOFT}">{at}</text>'
        f'<line x1="{_x(at)}" x2="{_x(at)}" y1="{_TOP}" y2="{height - 22}" stroke="#e4e8ec"/>'
        for at in range(_FIRST, _END + 1, 5)
    ]
    width = _x(_END) + 16
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'font-family="system-ui, sans-serif" font-size="12" role="img">',
            f"<title>{title}</title>",
            f'<rect width="{width}" height="{height}" fill="#fff"/>',
            f'<text x="8" y="14" fill="{_INK}">{title}</text>',
            *marks,
            *parts,
            "</svg>\n",
        ]
    )


def _lanes(bars: list[Bar]) -> list[list[Bar]]:
    """The bars side by side, as far as they do not overlap."""
    lanes: list[list[Bar]] = []
    for bar in bars:
        free = next((lane for lane in lanes if lane[-1].end <= bar.start), None)
        if free is None:
            lanes.append([bar])
        else:
            free.append(bar)
    return lanes


def _bar(bar: Bar, top: int, colour: str) -> str:
    left, right = _x(bar.start), _x(bar.end)
    return (
        f'<rect x="{left + 1}" y="{top}" width="{right - left - 2}" height="{_BAR}" rx="3" '
        f'fill="{colour}" fill-opacity="0.15" stroke="{colour}"/>'
        f'<text x="{(left + right) // 2}" y="{top + 12}" text-anchor="middle" fill="{_INK}">'
        f"{len(bar.clicks)}</text>"
    )


def _x(second: float) -> int:
    return _LEFT + round((second - _FIRST) * _SECOND)


if __name__ == "__main__":
    for name, (title, window_fn) in KINDS.items():
        drawn = picture(title, bars(window_fn, "sparkbeam.SparkRunner"))
        (FOLDER / f"windows-{name}.svg").write_text(drawn)
