"""What a person sees of a streaming pipeline."""

from dataclasses import replace
from datetime import UTC, date, datetime

import pytest
from apache_beam.utils.timestamp import MAX_TIMESTAMP, Timestamp
from rich.console import Console
from terminals import ROWS, Terminal, plain_lines

from sparkbeam.observe.figures import formats
from sparkbeam.observe.figures.progress import (
    StageProgress,
    StageState,
    StreamingProgress,
    headline,
    progress_html,
    streaming_texts,
)
from sparkbeam.observe.views.rich_table import progress_table
from sparkbeam.observe.views.terminal import TerminalScreen

NOON = Timestamp.from_utc_datetime(datetime(2020, 5, 17, 12, 0, tzinfo=UTC))

RUNNING = StageState.RUNNING
READ = StageProgress("Read", RUNNING, 700, 40_000, 20_000.0, NOON, NOON)
COUNT = StageProgress(
    "Key + Count", RUNNING, 40_000, 40_000, 20_000.0, NOON, NOON - 12, 1204, 3_400_000, 3
)
LAST = StageProgress("Write", RUNNING)

PROGRESS = StreamingProgress(StageState.RUNNING, 17, 1.2, 35_000.0, 4.0, (READ, COUNT, LAST))


def cells(line: str) -> list[str]:
    """What stands in the columns of a line."""
    return [cell.strip() for cell in line.split("  ") if cell]


def test_a_table_has_the_figures_of_each_stage() -> None:
    today = datetime.now(UTC).replace(hour=12, minute=0, second=5)
    current = Timestamp.from_utc_datetime(today)
    read = replace(READ, input_watermark=current, output_watermark=current)
    progress = replace(PROGRESS, stages=(read, COUNT))
    console = Console(width=120)
    with console.capture() as captured:
        console.print(progress_table(progress, 35.0, width=120, height=ROWS))
    first, second, last = (line.rstrip() for line in captured.get().splitlines())
    assert cells(first) == ["Read", "40,000", "20,000/s", "12:00:05"]
    assert cells(second) == [
        "Key + Count",
        "40,000",
        "20,000/s",
        "2020-05-17 11:59:48",
        "held 12.0 s",
        "1,204 keys, 3.4 MB",
        "3 late",
    ]
    assert last == (
        "micro-batch 17, 1.2 s, 35,000 elements/s, 4.0 s behind, 3 late elements dropped, "
        "after 35.0 s"
    )


@pytest.mark.parametrize(("width", "columns"), [(79, 5), (60, 4), (45, 3), (25, 2)])
def test_a_narrow_terminal_loses_the_last_columns(
    terminal: Terminal, screen: TerminalScreen, width: int, columns: int
) -> None:
    terminal.resize(ROWS, width)
    screen.show(PROGRESS, 35.0)
    lines = terminal.lines
    assert lines[0] == ""
    assert [len(cells(line)) for line in lines[1:3]] == [min(columns, 4), columns]
    assert len(lines) == 5
    assert max(map(len, lines)) < width


def test_many_stages_show_those_with_most_elements(
    terminal: Terminal, screen: TerminalScreen
) -> None:
    stages = tuple(StageProgress(f"Step {n}", RUNNING, n, n) for n in range(60))
    screen.show(replace(PROGRESS, stages=stages), 35.0)
    lines = terminal.lines
    assert len(lines) < ROWS
    assert lines[-2].split()[:2] == ["Step", "59"]


def test_the_table_stays_at_the_end(terminal: Terminal, screen: TerminalScreen) -> None:
    screen.show(PROGRESS, 35.0)
    screen.finish(replace(PROGRESS, state=StageState.DONE), 36.0)
    assert terminal.lines[0].startswith("Read")
    assert terminal.lines[-1] == "done, micro-batch 17, 3 late elements dropped, after 36.0 s"


def test_html_has_the_last_micro_batch() -> None:
    assert "micro-batch 17" in progress_html(PROGRESS, 35.0)


# Lines of text.


def test_a_line_tells_of_the_last_micro_batch() -> None:
    progress = replace(PROGRESS, stages=(READ,), lag_seconds=None)
    assert plain_lines((5.0, progress)) == [
        "sparkbeam: micro-batch 17, 1.2 s, 35,000 elements/s, after 5.0 s"
    ]


def test_lines_come_every_ten_seconds_at_most() -> None:
    moments = [(float(second), replace(PROGRESS, micro_batch=second)) for second in range(1, 22)]
    numbers = [line.split()[2] for line in plain_lines(*moments)]
    assert numbers == ["1,", "11,", "21,"]


# Words.


@pytest.mark.parametrize(
    ("watermark", "text"),
    [
        (None, "-"),
        (NOON, "12:00:00"),
        (NOON + 86_400, "2020-05-18 12:00:00"),
        (Timestamp(-(10**12)), "-"),
        (MAX_TIMESTAMP, "end"),
    ],
)
def test_watermarks_are_in_utc(watermark: Timestamp | None, text: str) -> None:
    assert formats.moment(watermark, date(2020, 5, 17)) == text


def test_there_is_no_delay_behind_the_end() -> None:
    assert streaming_texts(COUNT)["held"] == "held 12.0 s"
    at_end = replace(COUNT, input_watermark=MAX_TIMESTAMP)
    assert streaming_texts(at_end)["held"] == ""
    assert streaming_texts(READ)["held"] == ""


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (3_400_000, "3.4 MB"),
        (7 * 10**15, "7000.0 TB"),
    ],
)
def test_bytes_are_readable(count: int, text: str) -> None:
    assert formats.size(count) == text


@pytest.mark.parametrize(
    ("progress", "text"),
    [
        (StreamingProgress(), "waiting, after 2.0 s"),
        (StreamingProgress(StageState.STOPPED, 3), "stopped, micro-batch 3, after 2.0 s"),
        (
            StreamingProgress(StageState.RUNNING, 3, 0.5, 7.0, 90.0),
            "micro-batch 3, 0.5 s, 7 elements/s, 1:30 min behind, after 2.0 s",
        ),
    ],
)
def test_the_whole_in_one_line(progress: StreamingProgress, text: str) -> None:
    assert headline(progress, 2.0) == text
