"""What a person sees of the progress."""

import io
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import pytest
from apache_beam.utils.timestamp import MAX_TIMESTAMP, Timestamp
from golden_files import Golden, sections
from terminals import ROWS, Terminal

from sparkbeam.observe.figures import formats
from sparkbeam.observe.figures.progress import (
    PipelineProgress,
    Progress,
    StageProgress,
    StageState,
    StreamingProgress,
    headline,
    progress_html,
    streaming_texts,
)
from sparkbeam.observe.views.display import Display, screen_for
from sparkbeam.observe.views.log_lines import PlainScreen
from sparkbeam.observe.views.notebook import NotebookScreen
from sparkbeam.observe.views.terminal import TerminalScreen

WAITING, RUNNING, DONE, FAILED, STOPPED = StageState


def stage(name: str, state: StageState, failed: int = 0) -> StageProgress:
    if state is WAITING:
        return StageProgress(name)
    return StageProgress(
        name,
        state,
        elements=1000,
        busiest=120_000,
        per_second=60_000.0,
        tasks_started=4,
        tasks_done=3,
        tasks_failed=failed,
        seconds=2.0,
    )


def pipeline(*states: StageState) -> PipelineProgress:
    stages = (stage(f"Step {number}", state) for number, state in enumerate(states))
    return PipelineProgress(tuple(stages))


NOON = Timestamp.from_utc_datetime(datetime(2020, 5, 17, 12, 0, tzinfo=UTC))
READ = StageProgress("Read", RUNNING, 700, 40_000, 20_000.0, NOON, NOON)
COUNT = StageProgress(
    "Key + Count", RUNNING, 40_000, 40_000, 20_000.0, NOON, NOON - 12, 1204, 3_400_000, 3
)
LAST = StageProgress("Write", RUNNING)
STREAM = StreamingProgress(RUNNING, 17, 1.2, 35_000.0, 4.0, (READ, COUNT, LAST))
MANY = replace(STREAM, stages=tuple(StageProgress(f"Step {n}", RUNNING, n, n) for n in range(60)))
BEGUN = pipeline(RUNNING, WAITING)
LONG_NAME = " + ".join(f"[red]Step {number}" for number in range(40))

# A terminal.

Move = Callable[[TerminalScreen], None] | str | tuple[int, int]
"""A call of the screen, what another writer prints, or another size of the terminal."""


def show(progress: Progress, seconds: float = 5.0) -> Move:
    return lambda screen: screen.show(progress, seconds)


def finish(progress: Progress, seconds: float = 6.0) -> Move:
    return lambda screen: screen.finish(progress, seconds)


def frames(count: int, line: str) -> list[Move]:
    """Frames with a line of others after each but the last."""
    first = [move for n in range(count) for move in (show(BEGUN, 5.0 + n), f"{line} {n}\r\n")]
    return [*first, show(BEGUN, 5.0 + count)]


SCREENS: dict[str, Sequence[Move]] = {
    "a line for each stage": [show(pipeline(DONE, RUNNING, WAITING))],
    "a frame takes the place of the one before": [show(BEGUN), show(pipeline(DONE, RUNNING), 6.0)],
    "nothing of a short pipeline": [show(BEGUN, 0.3), finish(pipeline(DONE), 0.4)],
    "the table stays at the end": [show(BEGUN), finish(pipeline(DONE, FAILED)), "next\r\n"],
    "clearing leaves nothing": ["before\r\n", show(BEGUN), TerminalScreen.clear],
    "what others print stays": frames(5, "an element"),
    "several lines at once stay": [
        *(show(BEGUN), "".join(f"element {n}\r\n" for n in range(6)), show(BEGUN, 10.0)),
    ],
    "an unfinished line stays": [
        *(show(BEGUN), "wait", show(BEGUN, 6.0), "ing\r\n", show(BEGUN, 7.0)),
    ],
    "it scrolls at the bottom": [
        *("".join(f"line {n}\r\n" for n in range(ROWS)), *frames(3, "element")),
    ],
    "of many stages those that run": [show(pipeline(*[DONE] * 40, RUNNING, *[WAITING] * 20), 90.0)],
    "the same on five rows": [
        *((5, 80), show(pipeline(*[DONE] * 40, RUNNING, *[WAITING] * 20), 90.0)),
    ],
    "many running stages": [show(pipeline(*[RUNNING] * 60))],
    "a long name loses its middle": [show(PipelineProgress((stage(LONG_NAME, RUNNING, 1),)))],
    "30 columns": [(ROWS, 30), show(pipeline(DONE, RUNNING))],
    **{
        f"a stream on {columns} columns": [(ROWS, columns), show(STREAM, 35.0)]
        for columns in (121, 79, 60, 45, 25)
    },
    "of many stages of a stream those with most elements": [show(MANY, 35.0)],
    "a stream at its end": [show(STREAM, 35.0), finish(replace(STREAM, state=DONE), 36.0)],
}


def test_a_terminal_shows_a_table_and_what_others_print(golden: Golden) -> None:
    seen = {}
    for name, moves in SCREENS.items():
        columns = 80
        with Terminal() as terminal:
            screen = TerminalScreen(terminal.stream)
            for move in moves:
                if isinstance(move, str):
                    terminal.print(move)
                elif isinstance(move, tuple):
                    terminal.resize(*move)
                    columns = move[1]
                else:
                    move(screen)
            lines = terminal.lines
            assert max(map(len, lines), default=0) < columns
            at = "the cursor is in line {}, column {}".format(*terminal.cursor)
            seen[name] = [*(f"| {line}" for line in lines), at]
    golden("terminals.txt", sections(seen))


# Lines of text.

LOGS: dict[str, Sequence[tuple[float, Progress]]] = {
    "the stages that run": [(5.0, pipeline(DONE, RUNNING, WAITING))],
    "three stages at most": [(5.0, pipeline(*[RUNNING] * 50))],
    "changes only": [(moment, BEGUN) for moment in (1.0, 10.0, 100.0)],
    "changes of a stream only": [
        (moment, StreamingProgress(RUNNING, 17)) for moment in (1.0, 10.0, 100.0)
    ],
    "every three seconds at most": [
        *((1.0, BEGUN), (2.0, pipeline(DONE, RUNNING))),
        *((3.9, pipeline(DONE, RUNNING)), (4.0, pipeline(DONE, RUNNING))),
    ],
    "nothing before anything runs": [(moment, pipeline(WAITING, WAITING)) for moment in (1.0, 9.0)],
    "nothing before a stream runs": [(moment, StreamingProgress()) for moment in (1.0, 20.0)],
    "the last micro-batch": [(5.0, replace(STREAM, stages=(READ,), lag_seconds=None))],
    "every ten seconds at most in a stream": [
        (float(second), replace(STREAM, micro_batch=second)) for second in range(1, 22)
    ],
}
"""Moments of a pipeline, in seconds."""


def test_a_log_has_lines(golden: Golden) -> None:
    written = {}
    for name, moments in LOGS.items():
        stream, now = io.StringIO(), [0.0]
        screen = PlainScreen(stream, clock=lambda now=now: now[0])  # type: ignore[misc]
        for now[0], progress in moments:
            screen.show(progress, now[0])
        written[name] = stream.getvalue().splitlines()
    stream = io.StringIO()
    PlainScreen(stream).finish(pipeline(DONE, DONE), 0.1)
    written["the last line is always written"] = stream.getvalue().splitlines()
    golden("lines of a log.txt", sections(written))


# A notebook.


def test_a_notebook_updates_one_table(monkeypatch: pytest.MonkeyPatch, golden: Golden) -> None:
    shown: list[Any] = []

    class Handle:
        def update(self, data: dict[str, str], raw: bool) -> None:
            shown.append(("update", raw, data))

    class IPythonDisplay:
        @staticmethod
        def display(data: dict[str, str], raw: bool, display_id: bool) -> Handle:
            shown.append(("display", raw and display_id, data))
            return Handle()

    monkeypatch.setitem(sys.modules, "IPython.display", IPythonDisplay)
    screen = NotebookScreen()
    screen.show(PipelineProgress((stage("Keep <b>old</b> & new", RUNNING),)), 1.0)
    screen.show(STREAM, 35.0)
    screen.finish(pipeline(DONE), 2.0)
    assert [told for *told, _ in shown] == [["display", True], ["update", True], ["update", True]]
    texts = {data["text/plain"]: [data["text/html"].replace("<", "\n<")] for *_, data in shown}
    golden("notebook.txt", sections(texts))


def test_html_of_many_stages_tells_how_many_are_left_out() -> None:
    assert "… 60 more" in progress_html(pipeline(*[DONE] * 260))


# Which of them, and when.


@pytest.mark.parametrize(
    ("option", "where", "expected"),
    [
        ("auto", "a file", type(None)),
        ("on", "a file", PlainScreen),
        ("off", "a file", type(None)),
        ("auto", "xterm-256color", TerminalScreen),
        ("on", "xterm-256color", TerminalScreen),
        ("off", "xterm-256color", type(None)),
        ("auto", "dumb", type(None)),
        ("on", "dumb", PlainScreen),
        ("auto", "a notebook", NotebookScreen),
        ("on", "a notebook", NotebookScreen),
        ("off", "a notebook", type(None)),
    ],
)
def test_the_option_picks_the_screen(
    monkeypatch: pytest.MonkeyPatch, terminal: Terminal, option: str, where: str, expected: type
) -> None:
    in_terminal = where in ("xterm-256color", "dumb")
    monkeypatch.setattr(sys, "stderr", terminal.stream if in_terminal else io.StringIO())
    monkeypatch.setenv("TERM", where if in_terminal else "xterm")
    in_notebook = "sparkbeam.observe.views.display.in_notebook"
    monkeypatch.setattr(in_notebook, lambda: where == "a notebook")
    assert type(screen_for(option)) is expected


class Recorder:
    """A screen that remembers what it is told."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.shown = threading.Event()

    def show(self, progress: Progress, seconds: float) -> None:
        self.calls.append("show")
        self.shown.set()

    def finish(self, progress: Progress, seconds: float) -> None:
        self.calls.append("finish")

    def clear(self) -> None:
        self.calls.append("clear")


def test_a_display_shows_until_it_is_closed() -> None:
    recorder = Recorder()
    display = Display(PipelineProgress, recorder)
    assert recorder.shown.wait(10)
    display.close()
    *before, last = recorder.calls
    assert ({*before}, last) == ({"show"}, "finish")


def test_a_hidden_display_clears_once() -> None:
    recorder = Recorder()
    display = Display(PipelineProgress, recorder)
    display.hide()
    display.hide()
    display.close()
    assert recorder.calls == ["clear"]


def test_a_stream_that_is_closed_ends_the_display_only() -> None:
    stream = io.StringIO()
    stream.close()
    Display(PipelineProgress, PlainScreen(stream)).close()


# Words.


def at(text: str) -> date:
    return date.fromisoformat(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *((formats.duration(0.04), "0.0 s"), (formats.duration(59.9), "59.9 s")),
        *((formats.duration(61), "1:01 min"), (formats.duration(3723), "1:02:03 h")),
        (formats.shortened("short", 5), "short"),
        (formats.shortened("a longer one", 11), "a lo... one"),
        (formats.shortened("a longer one", 10), "a lo...one"),
        (formats.shortened("漢字漢字漢字", 12), "漢字漢字漢字"),
        (formats.shortened("漢字漢字漢字", 11), "漢字...漢字"),
        (formats.shortened("漢字漢字漢字", 8), "漢...字"),
        *((formats.size(0), "0 B"), (formats.size(999), "999 B"), (formats.size(1000), "1.0 kB")),
        *((formats.size(3_400_000), "3.4 MB"), (formats.size(7 * 10**15), "7000.0 TB")),
        (formats.moment(None), "-"),
        (formats.moment(NOON + 0.654321, at("2020-05-17")), "12:00:00"),
        (formats.moment(NOON, at("2020-05-16")), "2020-05-17 12:00:00"),
        (formats.moment(NOON), "2020-05-17 12:00:00"),
        (formats.moment(Timestamp(-(10**12))), "-"),
        (formats.moment(MAX_TIMESTAMP), "end"),
        (streaming_texts(COUNT)["held"], "held 12.0 s"),
        (streaming_texts(replace(COUNT, input_watermark=MAX_TIMESTAMP))["held"], ""),
        (streaming_texts(READ)["held"], ""),
        (headline(StreamingProgress(), 2.0), "waiting, after 2.0 s"),
        (headline(StreamingProgress(STOPPED, 3), 2.0), "stopped, micro-batch 3, after 2.0 s"),
        (
            headline(StreamingProgress(RUNNING, 3, 0.5, 7.0, 90.0), 2.0),
            "micro-batch 3, 0.5 s, 7 elements/s, 1:30 min behind, after 2.0 s",
        ),
    ],
)
def test_figures_as_text(text: str, expected: str) -> None:
    assert text == expected
