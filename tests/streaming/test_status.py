"""What a checkpoint tells of its pipeline, to whoever does not run it."""

import json
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from command import answer, command
from ended_checkpoints import leave
from golden_files import Golden, sections

from sparkbeam.errors import ConfigurationError
from sparkbeam.observe.figures.progress import StreamingProgress
from sparkbeam.observe.sinks.runner_metrics import runner_metrics
from sparkbeam.streaming.status import status
from sparkbeam.wire.timestamps import MAX_MICROS

NOW = 2_000_000_000.0
LAGGING: dict[str, Any] = {"summary": {"source_watermark": int((NOW - 100) * 1e6)}}


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """That of a pipeline which has ended, but for the logs that Spark would write."""
    leave(tmp_path)
    return tmp_path


def feedback(checkpoint: Path, **changes: Any) -> None:
    """Has the one micro-batch end as it did, but for some things."""
    path = checkpoint / "sparkbeam/feedback/1.json"
    content = json.loads(path.read_text())
    summary = {**content["summary"], **changes.pop("summary", {})}
    path.write_text(json.dumps({**content, "summary": summary, **changes}))
    (checkpoint / "sparkbeam/finished").unlink(missing_ok=True)


def spark(checkpoint: Path, *entries: str, ago: float = 0.0) -> None:
    """Writes entries of Spark's logs, so many seconds ago."""
    for entry in entries:
        path = checkpoint / entry
        path.parent.mkdir(exist_ok=True)
        path.touch()
        os.utime(path, (NOW - ago, NOW - ago))


def test_the_rate_of_a_step_is_that_of_the_last_micro_batches(checkpoint: Path) -> None:
    """Not what the last one took in by what it took, which a paced source never has."""
    last = json.loads((checkpoint / "sparkbeam/feedback/1.json").read_text())
    for number in range(1, 6):
        stages = {
            id: {**stage, "new": [500, 500]} for id, stage in last["summary"]["stages"].items()
        }
        summary = last["summary"] | {
            "ended": number * 1_000_000,
            "duration": 100_000,
            "stages": stages,
        }
        content = {**last, "number": number, "finished": False, "summary": summary}
        (checkpoint / f"sparkbeam/feedback/{number}.json").write_text(json.dumps(content))
    (checkpoint / "sparkbeam/finished").unlink()
    spark(checkpoint, "offsets/4", "commits/4")
    steps = status(str(checkpoint), now=NOW).progress.stages
    assert {step.per_second for step in steps} == {500.0}


DONE = ("offsets/0", "commits/0")


def sign(checkpoint: Path, **changes: Any) -> None:
    """Has the program of the pipeline given a sign of life."""
    feedback(checkpoint, summary={"ended": int((NOW - 60) * 1e6)})
    spark(checkpoint, *DONE, ago=60)
    path = checkpoint / "sparkbeam/driver.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "written": NOW, **changes}))


def runs(checkpoint: Path, started: float, **changes: Any) -> None:
    """Has a program started so many seconds ago, which runs."""
    sign(checkpoint, over=False, state="RUNNING", started=NOW - started, **changes)


def down(checkpoint: Path, started: float, *, pending: bool) -> None:
    """Has a program started after an hour's downtime."""
    runs(checkpoint, started)
    ended = int((NOW - 3600) * 1e6)
    summary = {"ended": ended, "source_watermark": ended}
    feedback(checkpoint, summary=summary, due=None if pending else ended)
    spark(checkpoint, *DONE, *["offsets/1"] * pending, ago=3600)


def quiet(checkpoint: Path, begun: float | None = None, **last: Any) -> None:
    """Leaves no sign of life, but a micro-batch, and one that has begun."""
    (checkpoint / "sparkbeam/driver.json").unlink()
    feedback(checkpoint, **last)
    spark(checkpoint, *DONE, "offsets/.1.crc", ago=1e6)
    if begun is not None:
        spark(checkpoint, "offsets/1", ago=begun)


def drained(checkpoint: Path, *entries: str) -> None:
    (checkpoint / "sparkbeam/drain").touch()
    spark(checkpoint, *entries, ago=1e6)


def draining(checkpoint: Path) -> None:
    feedback(checkpoint)
    drained(checkpoint, *DONE)


def without_ticks(checkpoint: Path) -> None:
    feedback(checkpoint)
    spark(checkpoint, *DONE, "commits/6", ago=1e6)
    (checkpoint / "offsets/6").write_text('v1\n{}\n{"number": 1}\n17')


def first(checkpoint: Path, started: float) -> None:
    """Has a program started that has committed nothing yet."""
    runs(checkpoint, started)
    for folder in ("offsets", "commits", "sparkbeam/feedback"):
        for entry in (checkpoint / folder).iterdir():
            entry.unlink()


def finished(checkpoint: Path) -> None:
    sign(checkpoint, over=True, state="FAILED")
    (checkpoint / "sparkbeam/finished").write_text("1")


def first_is_stuck(checkpoint: Path) -> None:
    feedback(checkpoint)
    spark(checkpoint, "offsets/0", ago=70)


def late(checkpoint: Path, *, over: bool) -> None:
    sign(checkpoint, over=over, state="DONE" if over else "RUNNING")
    feedback(checkpoint, due=int((NOW - 70) * 1e6))


def due(seconds: float) -> dict[str, Any]:
    return {"due": int((NOW + seconds) * 1e6)}


PATIENT, SHORT, LONG = {"patience": 80.0}, {"max_lag": 50.0}, {"max_lag": 200.0}
CASES: dict[str, tuple[Callable[[Path], None], dict[str, float]]] = {
    "ended": (lambda c: spark(c, *DONE, ago=1e6), {}),
    "drained": (drained, {}),
    # Spark's sources have gone on for some micro-batches, and the last one was not committed.
    "drained, and gone on": (lambda c: drained(c, "offsets/141", "commits/140"), {}),
    "draining": (draining, {}),
    "micro-batches without a tick": (without_ticks, {}),
    "failed": (lambda c: sign(c, over=True, state="FAILED", error="Step 'Group' failed"), {}),
    "cancelled": (lambda c: sign(c, over=True, state="CANCELLED"), {}),
    "done": (lambda c: sign(c, over=True, state="DONE"), {}),
    "running": (lambda c: runs(c, 4000), {}),
    "running, 29 s ago": (lambda c: runs(c, 4000, written=NOW - 29), {}),
    "running, 31 s ago": (lambda c: runs(c, 4000, written=NOW - 31), {}),
    # Another run has committed something since then, which leaves no signs.
    "running, before the last micro-batch": (lambda c: runs(c, 4000, written=NOW - 100), {}),
    **{
        f"started {seconds} s ago after a downtime, {'pending' if pending else 'due'}, {more}": (
            partial(down, started=seconds, pending=pending),
            more,
        )
        for pending in (True, False)
        for seconds in (5, 90, 599, 601, 4000)
        for more in ({}, {"patience": 10.0}, {"patience": 700.0}, {"max_lag": 60.0})
    },
    "started 5 s ago for the first time": (partial(first, started=5), {}),
    "started 601 s ago for the first time": (partial(first, started=601), {}),
    "started with nothing to do": (lambda c: runs(c, 5), {}),
    "finished, whatever the program says": (finished, {}),
    "quiet": (quiet, {}),
    # A micro-batch may take a while, and a longer one after one that took long.
    "a micro-batch for 50 s": (lambda c: quiet(c, 50), {}),
    "a micro-batch for 70 s": (lambda c: quiet(c, 70), {}),
    "a micro-batch for 70 s, with patience": (lambda c: quiet(c, 70), PATIENT),
    "one for 190 s after one of 20 s": (
        lambda c: quiet(c, 190, summary={"duration": 20_000_000}),
        {},
    ),
    "one missed by 70 s": (lambda c: quiet(c, **due(-70)), {}),
    "one missed by 10 s": (lambda c: quiet(c, **due(-10)), {}),
    "one in 500 s": (lambda c: quiet(c, **due(500)), {}),
    "a lag": (lambda c: quiet(c, **LAGGING), {}),
    "a lag within its limit": (lambda c: quiet(c, **LAGGING), LONG),
    "a lag beyond its limit": (lambda c: quiet(c, **LAGGING), SHORT),
    "the first micro-batch for 70 s": (first_is_stuck, {}),
    "one missed by a program that runs": (partial(late, over=False), {}),
    "one missed by a program that has ended": (partial(late, over=True), {}),
}


def test_the_health_is_told(
    checkpoint: Path, tmp_path_factory: pytest.TempPathFactory, golden: Golden
) -> None:
    texts = {}
    for number, (name, (make, settings)) in enumerate(CASES.items()):
        folder = tmp_path_factory.mktemp("case") / str(number)
        shutil.copytree(checkpoint, folder)
        make(folder)
        found = status(str(folder), now=NOW, **settings)
        assert found.content()["health"] == found.health.value
        texts[name] = [
            f"{found.health.name}, {'well' if found.is_well else 'not well'}, "
            f"micro-batch {found.progress.micro_batch}, draining {found.draining}",
            *list(found.lines())[:1],
            *([found.content()["error"]] if found.content()["error"] else []),
        ]
    varying = {r"committed .*": "committed TIME", r"since .* ago": "since TIME"}
    golden("health.txt", sections(texts), varying)


def test_a_step_without_a_stored_name_has_its_address(checkpoint: Path) -> None:
    path = checkpoint / "sparkbeam/feedback/1.json"
    content = json.loads(path.read_text())
    del content["summary"]["names"]
    path.write_text(json.dumps(content))
    spark(checkpoint, "offsets/0", "commits/0")
    assert all(step.name for step in status(str(checkpoint), now=NOW).progress.stages)


def test_a_folder_without_a_pipeline_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no checkpoint of a sparkbeam pipeline"):
        status(str(tmp_path))


# The command.


def test_the_command_answers_in_words_and_as_json(checkpoint: Path, golden: Golden) -> None:
    spark(checkpoint, *DONE)
    text = "\n".join(answer(command("status", checkpoint)))
    varying = {
        r"committed .* ago, after .*": "committed TIME ago, after TIME",
        r"(stages|collecting|feedback) [\d,]+ ms": r"\1 TIME",
    }
    golden("status of a checkpoint.txt", text, varying)
    content = json.loads(command("status", "--json", checkpoint).output)
    assert (content["health"], content["micro_batch"]) == ("finished", 1)
    assert content["generation"] == 1, "so often a driver was started"
    assert {step["output_watermark"] for step in content["steps"]} == {"end"}


def test_the_command_fails_where_the_pipeline_does_not_come_forward(checkpoint: Path) -> None:
    feedback(checkpoint)
    spark(checkpoint, *DONE, "offsets/1", ago=NOW)
    stuck = command("status", checkpoint)
    assert (stuck.exit_code, stuck.output[:5]) == (1, "stuck")


def test_errors_of_the_command(
    golden: Golden, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    refused = [["--max_lag=-1", "x"], ["--patience=soon", "x"], ["x"], []]
    texts = {" ".join(["status", *given]): answer(command("status", *given)) for given in refused}
    golden("errors of status.txt", sections(texts), {str(tmp_path): "FOLDER"})


def test_how_far_a_watermark_is_held_is_told_as_long_as_its_input_goes_on(
    checkpoint: Path,
) -> None:
    feedback(checkpoint)
    stages = json.loads((checkpoint / "sparkbeam/feedback/1.json").read_text())["summary"]["stages"]
    (*_, last) = stages
    for arrived, expected in ((7_000_000, 4.0), (MAX_MICROS, None)):
        marks = {"input_watermark": arrived, "output_watermark": 3_000_000}
        changed = {**stages, last: {**stages[last], **marks}}
        feedback(checkpoint, summary={"stages": changed})
        spark(checkpoint, "offsets/0", "commits/0")
        found = status(str(checkpoint), now=NOW)
        assert found.content()["steps"][-1]["held_seconds"] == expected
        (held,) = (
            metric.value
            for metric in runner_metrics(
                StreamingProgress(micro_batch=1, stages=found.progress.stages), 0
            )
            if metric.name == "held_ms" and metric.step == found.progress.stages[-1].name
        )
        assert held == 1000 * (expected or 0)
