"""What the page shows of a pipeline of another process."""

import json
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import apache_beam as beam
import pytest
from ended_checkpoints import leave
from golden_files import Golden
from in_process import streaming_pipeline

from sparkbeam.errors import ConfigurationError, PipelineFailed
from sparkbeam.observe.page.page_address import Beacon
from sparkbeam.observe.page.watch import CheckpointView

HOSTILE = "<b>&\"'</text><script>alert(1)</script>"


def left(location: Path, *flags: str, step: Any = None) -> None:
    """Runs a pipeline over a checkpoint, to its end."""
    try:
        leave(location, *flags, then=HOSTILE >> beam.Map(step or (lambda x: x)))
    finally:
        for folder in ("offsets", "commits"):
            (location / folder).mkdir(exist_ok=True)
            (location / folder / "0").touch()


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """That of a pipeline which has ended."""
    location = tmp_path / "checkpoint"
    left(location, "--query_name=counts a minute")
    return location


def graph(view: CheckpointView) -> ET.Element:
    return ET.fromstring(view.graph)


def changed(checkpoint: Path, **fields: Any) -> None:
    """Changes the last sign of the driver."""
    path = checkpoint / "sparkbeam" / "driver.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def test_it_shows_micro_batches_graph_steps_and_name_as_the_program_has_left_them(
    checkpoint: Path, golden: Golden
) -> None:
    view = CheckpointView(str(checkpoint))
    found = view.content()
    assert view.over
    assert [moment.number for moment in view.history(0)] == [1]
    boxes = [box.get("data-stage") for box in graph(view).iter() if box.get("data-stage")]
    assert boxes == [stage["id"] for stage in found["stages"]]
    assert not list(graph(view).iter("script"))
    varying = {
        **{r"[\d.,]+ m?s\b": "N s", r"[\d.]+ k?B": "N B", r"[\d,]+/s": "N/s"},
        **{r'("elements/s",\s+)".*"': r'\1"N"', r'"elements, because .*"': '"…"'},
    }
    golden("checkpoint.json", json.dumps(found, indent=1), varying)


def test_it_shows_what_a_run_has_failed_with_and_warned_of(tmp_path: Path) -> None:
    location = tmp_path / "checkpoint"
    with pytest.raises(PipelineFailed):
        left(location, "--spark_conf=spark.my.password=Tr0ub4dor", step=_fail)
    found = CheckpointView(str(location)).content()
    assert found["state"] == "FAILED"
    assert "ValueError: ***" in found["error"]
    for file in (location / "sparkbeam").glob("*.json"):
        assert "Tr0ub4dor" not in file.read_text()


def _fail(element: Any) -> None:
    raise ValueError("Tr0ub4dor")


def test_it_says_that_a_pipeline_has_gone_and_is_back(checkpoint: Path) -> None:
    now = [time.time()]
    view = CheckpointView(str(checkpoint), lambda: now[0])
    changed(checkpoint, over=False, written=now[0])
    assert view.content()["gone"] == ""
    now[0] += 31
    assert "is lost: its program has sent no heartbeat for 31.0 s" in view.content()["gone"]
    changed(checkpoint, over=False, written=now[0])
    assert view.content()["gone"] == ""


def test_a_sign_that_is_older_than_the_last_micro_batch_says_nothing(checkpoint: Path) -> None:
    changed(checkpoint, over=False, written=time.time() - 100)
    found = CheckpointView(str(checkpoint)).content()
    assert (found["gone"], found["stages"][0]["steps"]) == ("", [])


def test_a_sign_of_another_version_says_what_is_known_of_it(checkpoint: Path) -> None:
    changed(checkpoint, steps={"s0": [["a", "1", "2"]]}, facts={})
    found = CheckpointView(str(checkpoint)).content()
    assert ["pipeline", "counts a minute"] in found["facts"]
    assert [HOSTILE, "1", "1"] in [cells[:3] for cells in found["stages"][-1]["steps"]]


@pytest.mark.parametrize("name", ["driver.json", "graph.json"])
@pytest.mark.parametrize(
    "content", ["", "{", "[]", "7", "{}", '{"boxes": [{}], "arrows": []}', '{"steps": {"s0": 1}}']
)
def test_what_else_somebody_has_written_is_left_out(
    checkpoint: Path, name: str, content: str
) -> None:
    (checkpoint / "sparkbeam" / name).write_text(content)
    view = CheckpointView(str(checkpoint))
    assert view.content()["state"] == "finished"
    assert (view.graph == "") == (name == "graph.json")


def test_signs_that_cannot_be_written_harm_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no(self: Any, *, over: bool) -> Any:
        raise PermissionError("no room")

    monkeypatch.setattr(Beacon, "_sign", no)
    left(tmp_path / "checkpoint")
    assert caplog.text.count("the pipeline continues. PermissionError: no room") == 1


def test_a_checkpoint_of_another_pipeline_is_left_alone(checkpoint: Path) -> None:
    before = (checkpoint / "sparkbeam" / "driver.json").read_bytes()
    p = streaming_pipeline(None, checkpoint)
    _ = p | beam.Create([1]) | beam.GroupBy(lambda x: x) | beam.Reshuffle()
    with pytest.raises(ConfigurationError, match="another pipeline"):
        p.run().wait_until_finish()
    assert (checkpoint / "sparkbeam" / "driver.json").read_bytes() == before


def test_a_checkpoint_that_goes_is_told_and_may_come_back(checkpoint: Path) -> None:
    view = CheckpointView(str(checkpoint))
    aside = checkpoint.with_name("aside")
    shutil.move(checkpoint, aside)
    found = view.content()
    assert found["state"] == "gone"
    assert "There is no checkpoint" in found["error"]
    shutil.move(aside, checkpoint)
    assert view.content()["error"] == ""


def test_the_command_answers_until_it_is_interrupted(checkpoint: Path) -> None:
    watching = [sys.executable, "-m", "sparkbeam", "watch", str(checkpoint)]
    with subprocess.Popen(watching, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().removeprefix("The live page is at ").strip()
        with urllib.request.urlopen(f"{address}state.json", timeout=20) as answer:
            page: Any = json.load(answer)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    assert page["state"] == "finished"
