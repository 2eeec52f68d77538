"""What a person sees of the progress."""

import io
import sys
import threading

import pytest
from terminals import COLUMNS, ROWS, Terminal, plain_lines

from sparkbeam.observe.figures import formats
from sparkbeam.observe.figures.progress import (
    PipelineProgress,
    Progress,
    StageProgress,
    StageState,
    StreamingProgress,
    progress_html,
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


# A terminal.


def test_a_table_has_a_line_for_each_stage(terminal: Terminal, screen: TerminalScreen) -> None:
    screen.show(pipeline(DONE, RUNNING, WAITING), 5.0)
    assert [line.split() for line in terminal.lines if line] == [
        ["Step", "0", "done", "3/4", "120,000", "60,000/s"],
        ["Step", "1", "running", "3/4", "120,000", "60,000/s"],
        ["Step", "2", "waiting"],
        ["1", "of", "3", "stages", "done,", "1", "running", "after", "5.0", "s"],
    ]


def test_a_frame_takes_the_place_of_the_one_before(
    terminal: Terminal, screen: TerminalScreen
) -> None:
    screen.show(pipeline(RUNNING, WAITING), 5.0)
    screen.show(pipeline(DONE, RUNNING), 6.0)
    assert len([line for line in terminal.lines if line]) == 3
    assert terminal.lines[-1].endswith("6.0 s")


def test_a_short_pipeline_shows_nothing(terminal: Terminal, screen: TerminalScreen) -> None:
    screen.show(pipeline(RUNNING), 0.3)
    screen.finish(pipeline(DONE), 0.4)
    assert terminal.lines == []


def test_the_table_stays_at_the_end(terminal: Terminal, screen: TerminalScreen) -> None:
    screen.show(pipeline(RUNNING, WAITING), 5.0)
    screen.finish(pipeline(DONE, FAILED), 6.0)
    terminal.print("next\r\n")
    lines = terminal.lines
    assert [line.split()[:3] for line in lines[:2]] == [
        ["Step", "0", "done"],
        ["Step", "1", "failed"],
    ]
    assert lines[2:] == ["1 of 2 stages done, 1 failed after 6.0 s", "next"]


def test_clearing_leaves_nothing(terminal: Terminal, screen: TerminalScreen) -> None:
    terminal.print("before\r\n")
    screen.show(pipeline(RUNNING), 5.0)
    screen.clear()
    assert terminal.lines == ["before"]
    assert terminal.cursor == (1, 0)


def test_what_others_print_stays(terminal: Terminal, screen: TerminalScreen) -> None:
    for number in range(5):
        screen.show(pipeline(RUNNING, WAITING), 5.0 + number)
        terminal.print(f"an element {number}\r\n")
    screen.show(pipeline(RUNNING, WAITING), 10.0)
    lines = terminal.lines
    assert lines[:5] == [f"an element {number}" for number in range(5)]
    assert len(lines) == 5 + 1 + 3


def test_several_lines_at_once_stay(terminal: Terminal, screen: TerminalScreen) -> None:
    screen.show(pipeline(RUNNING, WAITING), 5.0)
    terminal.print("".join(f"element {number}\r\n" for number in range(6)))
    screen.show(pipeline(RUNNING, WAITING), 10.0)
    lines = terminal.lines
    assert all(line.startswith(f"element {number}") for number, line in enumerate(lines[:6]))
    assert len(lines) == 6 + 1 + 3


def test_an_unfinished_line_stays(terminal: Terminal, screen: TerminalScreen) -> None:
    screen.show(pipeline(RUNNING), 5.0)
    terminal.print("wait")
    screen.show(pipeline(RUNNING), 6.0)
    terminal.print("ing\r\n")
    screen.show(pipeline(RUNNING), 7.0)
    assert terminal.lines[0] == "waiting"


def test_it_scrolls_at_the_bottom(terminal: Terminal, screen: TerminalScreen) -> None:
    terminal.print("\r\n".join(f"line {number}" for number in range(ROWS)))
    terminal.print("\r\n")
    for number in range(3):
        screen.show(pipeline(RUNNING, WAITING), 5.0 + number)
        terminal.print(f"element {number}\r\n")
    screen.show(pipeline(RUNNING, WAITING), 9.0)
    lines = terminal.lines
    assert lines[-8:-4] == [f"line {ROWS - 1}", "element 0", "element 1", "element 2"]
    assert lines[-4] == ""
    assert lines[-1].startswith("0 of 2 stages done")


@pytest.mark.parametrize("rows", [24, 5])
def test_many_stages_show_those_that_run(
    terminal: Terminal, screen: TerminalScreen, rows: int
) -> None:
    terminal.resize(rows, COLUMNS)
    states = [DONE] * 40 + [RUNNING] + [WAITING] * 20
    screen.show(pipeline(*states), 90.0)
    lines = [line for line in terminal.lines if line]
    assert lines[0].split()[:3] == ["Step", "40", "running"]
    assert lines[1:] == ["40 of 61 stages done, 1 running after 1:30 min"]


def test_many_running_stages_fit_the_terminal(terminal: Terminal, screen: TerminalScreen) -> None:
    screen.show(pipeline(*[RUNNING] * 60), 5.0)
    lines = terminal.lines
    assert len(lines) < ROWS
    assert lines[-1] == "0 of 60 stages done, 60 running after 5.0 s"


def test_long_names_lose_their_middle(terminal: Terminal, screen: TerminalScreen) -> None:
    name = " + ".join(f"[red]Step {number}" for number in range(40))
    screen.show(PipelineProgress((stage(name, RUNNING, failed=1),)), 5.0)
    _, line, _ = terminal.lines
    assert line.startswith("[red]Step 0 + [re")
    assert "...8 + [red]Step 39  running" in line
    assert line.endswith("running  3/4, 1 failed  120,000  60,000/s")
    assert COLUMNS - 6 < len(line) < COLUMNS


def test_a_narrow_terminal_keeps_one_line_a_stage(
    terminal: Terminal, screen: TerminalScreen
) -> None:
    terminal.resize(ROWS, 30)
    screen.show(pipeline(DONE, RUNNING), 5.0)
    lines = terminal.lines
    assert [line[:6] for line in lines[1:3]] == ["Step 0", "Step 1"]
    assert max(map(len, lines)) < 30


# Lines of text.


def test_a_line_tells_the_stages_that_run() -> None:
    assert plain_lines((5.0, pipeline(DONE, RUNNING, WAITING))) == [
        "sparkbeam: 1 of 3 stages done, 1 running after 5.0 s; "
        "running Step 1 (3/4 tasks, 120,000 elements)"
    ]


def test_a_line_names_three_stages_at_most() -> None:
    (line,) = plain_lines((5.0, pipeline(*[RUNNING] * 50)))
    assert line.endswith("; 47 more")
    assert "Step 2" in line
    assert "Step 3" not in line


@pytest.mark.parametrize("progress", [pipeline(RUNNING, WAITING), StreamingProgress(RUNNING, 17)])
def test_lines_come_with_changes_only(progress: Progress) -> None:
    assert len(plain_lines((1.0, progress), (10.0, progress), (100.0, progress))) == 1


def test_lines_come_every_three_seconds_at_most() -> None:
    lines = plain_lines(
        (1.0, pipeline(RUNNING, WAITING)),
        (2.0, pipeline(DONE, RUNNING)),
        (3.9, pipeline(DONE, RUNNING)),
        (4.0, pipeline(DONE, RUNNING)),
    )
    assert [line.split(";")[0].split()[-2] for line in lines] == ["1.0", "4.0"]


@pytest.mark.parametrize("progress", [pipeline(WAITING, WAITING), StreamingProgress()])
def test_nothing_is_written_before_anything_runs(progress: Progress) -> None:
    assert plain_lines((1.0, progress), (20.0, progress)) == []


def test_the_last_line_is_always_written() -> None:
    stream = io.StringIO()
    screen = PlainScreen(stream)
    screen.finish(pipeline(DONE, DONE), 0.1)
    assert stream.getvalue() == "sparkbeam: 2 of 2 stages done after 0.1 s\n"


# A notebook.


def test_a_notebook_updates_one_table(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = []

    class Handle:
        def update(self, data: dict[str, str], raw: bool) -> None:
            assert raw
            shown.append(("update", data))

    class IPythonDisplay:
        @staticmethod
        def display(data: dict[str, str], raw: bool, display_id: bool) -> Handle:
            assert raw
            assert display_id
            shown.append(("display", data))
            return Handle()

    monkeypatch.setitem(sys.modules, "IPython.display", IPythonDisplay)
    screen = NotebookScreen()
    screen.show(pipeline(RUNNING), 1.0)
    screen.finish(pipeline(DONE), 2.0)
    assert [how for how, _ in shown] == ["display", "update"]
    assert "Step 0" in shown[0][1]["text/html"]
    assert shown[1][1]["text/plain"] == "1 of 1 stages done after 2.0 s"


def test_html_shows_labels_as_they_are() -> None:
    progress = PipelineProgress((stage("Keep <b>old</b> & new", RUNNING),))
    assert "Keep &lt;b&gt;old&lt;/b&gt; &amp; new" in progress_html(progress)


def test_html_of_many_stages_tells_how_many_are_left_out() -> None:
    assert "… 60 more" in progress_html(pipeline(*[DONE] * 260))


@pytest.mark.parametrize("option", ["auto", "on", "off"])
def test_in_a_notebook_progress_is_shown_unless_it_is_turned_off(
    monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    monkeypatch.setattr("sparkbeam.observe.views.display.in_notebook", lambda: True)
    assert type(screen_for(option)) is (type(None) if option == "off" else NotebookScreen)


# Which of them, and when.


@pytest.mark.parametrize(
    ("option", "terminal_name", "expected"),
    [
        ("auto", None, type(None)),
        ("on", None, PlainScreen),
        ("off", None, type(None)),
        ("auto", "xterm-256color", TerminalScreen),
        ("on", "xterm-256color", TerminalScreen),
        ("off", "xterm-256color", type(None)),
        ("auto", "dumb", type(None)),
        ("on", "dumb", PlainScreen),
    ],
)
def test_the_option_picks_the_screen(
    monkeypatch: pytest.MonkeyPatch,
    terminal: Terminal,
    option: str,
    terminal_name: str | None,
    expected: type,
) -> None:
    monkeypatch.setattr(sys, "stderr", terminal.stream if terminal_name else io.StringIO())
    monkeypatch.setenv("TERM", terminal_name or "xterm")
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
    assert recorder.calls[0] == "show"
    assert recorder.calls[-1] == "finish"
    assert recorder.calls.count("finish") == 1


def test_a_hidden_display_clears_once() -> None:
    recorder = Recorder()
    display = Display(PipelineProgress, recorder)
    display.hide()
    display.hide()
    display.close()
    assert recorder.calls == ["clear"]


def test_a_screen_that_fails_ends_the_display_only() -> None:
    class Broken(Recorder):
        def finish(self, progress: Progress, seconds: float) -> None:
            raise BrokenPipeError

    Display(PipelineProgress, Broken()).close()


def test_a_stream_that_is_closed_ends_the_display_only() -> None:
    stream = io.StringIO()
    stream.close()
    Display(PipelineProgress, PlainScreen(stream)).close()


# Words.


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.04, "0.0 s"), (59.9, "59.9 s"), (61, "1:01 min"), (3723, "1:02:03 h")]
)
def test_durations(seconds: float, text: str) -> None:
    assert formats.duration(seconds) == text


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [
        ("short", 5, "short"),
        ("a longer one", 11, "a lo... one"),
        ("a longer one", 10, "a lo...one"),
        ("漢字漢字漢字", 12, "漢字漢字漢字"),
        ("漢字漢字漢字", 11, "漢字...漢字"),
        ("漢字漢字漢字", 8, "漢...字"),
    ],
)
def test_names_are_cut_in_the_middle(text: str, width: int, expected: str) -> None:
    assert formats.shortened(text, width) == expected
