"""Texts of others on their way to terminals, pages and logs."""

import io
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkbeam.common.display_text import line, printable
from sparkbeam.errors import CheckpointFailed, PipelineFailed, UnsupportedTransform
from sparkbeam.observe.collection.notes import Note, Notes
from sparkbeam.observe.collection.printed_output import write
from sparkbeam.observe.figures.progress import (
    PipelineProgress,
    Progress,
    StageProgress,
    StageState,
    StreamingProgress,
    progress_html,
)
from sparkbeam.observe.figures.summary import RunSummary, StageSummary, StepSummary
from sparkbeam.observe.page.view import PageContent, StageView
from sparkbeam.observe.views.log_lines import PlainScreen
from sparkbeam.observe.views.rich_table import progress_table
from sparkbeam.run.run import _warn
from sparkbeam.streaming.heartbeat import Heartbeat
from sparkbeam.streaming.status import Health, PipelineStatus
from sparkbeam.wire.output_lines import STDERR, STDOUT
from sparkbeam.wire.reports import TaskReport, TaskWarning

HOSTILE = st.text(
    st.one_of(
        st.sampled_from("\x00\x07\x08\x1b\x7f\x9b\x85\r\n\t\u202e\u2066\u2069\u200f\ud800\udfff"),
        st.sampled_from("\x1b[2J ab;é字🔑"),
        st.characters(),
    ),
    max_size=30,
)
FEW = settings(max_examples=60, deadline=None)
BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


def is_obeyed(text: str, lines: str = "\n\t") -> bool:
    """Whether a terminal would do anything else than to show the text."""
    return any(
        (ord(each) < 0x20 and each not in lines)
        or 0x7F <= ord(each) < 0xA0
        or 0xD800 <= ord(each) < 0xE000
        or each in BIDI
        for each in text
    )


@FEW
@given(HOSTILE)
def test_a_printable_text_does_nothing(text: str) -> None:
    assert not is_obeyed(printable(text))
    assert not is_obeyed(line(text), "")
    assert len(line(text).splitlines()) <= 1
    line(text).encode()
    assert printable(printable(text)) == printable(text)


@pytest.mark.parametrize(
    "text", ["plain", "é字🔑 \N{WOMAN}\u200d\N{PERSONAL COMPUTER}", "שלום", "a\tb\nc"]
)
def test_what_can_be_printed_stays(text: str) -> None:
    assert printable(text) == text


def test_what_a_terminal_would_obey_is_told_in_escapes() -> None:
    assert printable("\x1b[2J\x9b\u202e\ud800\0") == "\\x1b[2J\\x9b\\u202e\\ud800\\x00"
    assert line("a\nb\u2028c") == "a\\nb\\u2028c"


@FEW
@given(HOSTILE)
def test_the_status_of_a_checkpoint(text: str) -> None:
    sign = Heartbeat(1.0, 10.0, text, True, text, error=text)
    progress = StreamingProgress(stages=(StageProgress(text),))
    found = PipelineStatus(Health.FAILED, progress=progress, sign=sign)
    for each in found.lines():
        assert not is_obeyed(each, "")
    assert not is_obeyed(json.dumps(found.content()), "")


@FEW
@given(HOSTILE)
def test_pages(text: str) -> None:
    stage = StageView(text, text, text, ((text, text),), (text,), steps=((text,),))
    page = PageContent(
        text, False, ((text, text),), (stage,), (Note(text, text, 1, 1.0),), text, text
    )
    told = page.content(str)

    def check(value: Any) -> None:
        if isinstance(value, str):
            assert not is_obeyed(value)
        for each in value.values() if isinstance(value, dict) else ():
            check(each)
        for each in value if isinstance(value, list) else ():
            check(each)

    check(told)


def progresses(name: str) -> list[Progress]:
    return [
        PipelineProgress((StageProgress(name, StageState.RUNNING, tasks_started=1),)),
        StreamingProgress(StageState.RUNNING, 1, 1.0, 1.0, None, (StageProgress(name),)),
    ]


@FEW
@given(HOSTILE)
def test_progress_as_lines_in_a_notebook_and_on_a_terminal(name: str) -> None:
    from rich.console import Console

    for progress in progresses(name):
        out = io.StringIO()
        PlainScreen(out).finish(progress, 1.0)
        assert not is_obeyed(out.getvalue())
        assert not is_obeyed(progress_html(progress, 1.0))
        console = Console(file=io.StringIO(), width=80)
        with console.capture() as captured:
            console.print(progress_table(progress, 1.0, width=80, height=20))
        assert not is_obeyed(captured.get())


@FEW
@given(HOSTILE)
def test_summaries(label: str) -> None:
    stage = StageSummary(label, (StepSummary(label, 1, 1),))
    assert not is_obeyed(str(RunSummary((stage,), 0)))


@FEW
@given(HOSTILE)
def test_notes_and_lines_of_steps(text: str) -> None:
    notes = Notes()
    notes.add(text, text)
    (note,) = notes.recent()
    assert not is_obeyed(note.step, "")
    assert not is_obeyed(note.text)
    for stream in (STDOUT, STDERR):
        with pytest.MonkeyPatch.context() as patch:
            out = io.StringIO()
            patch.setattr(sys, stream, out)
            write(stream, text)
        assert not is_obeyed(out.getvalue())


@FEW
@given(HOSTILE)
def test_errors_and_warnings(text: str) -> None:
    for error in (
        PipelineFailed(text, text),
        CheckpointFailed(text),
        UnsupportedTransform(text, text, text),
    ):
        assert not is_obeyed(str(error))
    report = TaskReport("s", [], (TaskWarning("builtins:UserWarning", text, "file.py", 1),))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _warn([report])
    assert not is_obeyed(str(caught[0].message))


def test_a_line_that_cannot_be_encoded_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    write(STDERR, "half \ud800 of a letter")
    assert capsys.readouterr().err == "half \\ud800 of a letter\n"


def test_titles_of_checkpoints(tmp_path: Path) -> None:
    from sparkbeam.plan.redaction import shown_url

    assert not is_obeyed(line(shown_url(f"{tmp_path}/\x1b[2J\u202e")), "")
