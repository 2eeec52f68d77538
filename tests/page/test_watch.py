"""What the page shows of a pipeline of another process."""

import json
import shutil
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from click.testing import CliRunner
from in_process import StreamingRunner

from sparkbeam.cli import main
from sparkbeam.page.watch import CheckpointView


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """That of a pipeline which has ended."""
    location = tmp_path / "checkpoint"
    events = TestStream(coder=VarIntCoder()).add_elements([TimestampedValue(1, 1)])
    options = PipelineOptions(["--streaming", f"--checkpoint_location={location}"])
    with beam.Pipeline(runner=StreamingRunner(), options=options) as p:
        (
            p
            | events.advance_watermark_to_infinity()
            | "Windows" >> beam.WindowInto(FixedWindows(10))
            | "Group" >> beam.GroupBy(lambda x: x % 2)
        )
    for folder in ("offsets", "commits"):
        (location / folder).mkdir(exist_ok=True)
        (location / folder / "0").touch()
    return location


def test_it_shows_the_last_micro_batch_and_those_before(checkpoint: Path) -> None:
    view = CheckpointView(str(checkpoint))
    found = view.content()
    assert (found["state"], found["over"], view.over) == ("finished", True, True)
    assert ["micro-batch", "1"] in found["facts"]
    assert [stage["name"] for stage in found["stages"]] == ["Windows + Group"]
    assert [moment.number for moment in view.history(0)] == [1]


def test_a_checkpoint_that_goes_is_told_and_may_come_back(checkpoint: Path) -> None:
    view = CheckpointView(str(checkpoint))
    aside = checkpoint.with_name("aside")
    shutil.move(checkpoint, aside)
    found = view.content()
    assert found["state"] == "gone"
    assert "There is no checkpoint" in found["error"]
    shutil.move(aside, checkpoint)
    assert view.content()["error"] == ""


def test_what_is_no_checkpoint_is_an_error_at_once(tmp_path: Path) -> None:
    found = CliRunner().invoke(main, ["watch", str(tmp_path)])
    assert found.exit_code == 2
    assert "There is no checkpoint of a sparkbeam pipeline" in found.output


def test_the_command_answers_until_it_is_interrupted(checkpoint: Path) -> None:
    command = [sys.executable, "-m", "sparkbeam", "watch", str(checkpoint)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().removeprefix("The live page is at ").strip()
        with urllib.request.urlopen(f"{address}state.json", timeout=20) as answer:
            page: Any = json.load(answer)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    assert page["state"] == "finished"
