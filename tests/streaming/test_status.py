"""What a checkpoint tells of its pipeline, to whoever does not run it."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from command import answer, command
from ended_checkpoints import leave
from golden_files import Golden, sections

from sparkbeam.errors import ConfigurationError
from sparkbeam.observe.figures.progress import StreamingProgress
from sparkbeam.observe.sinks.runner_metrics import runner_metrics
from sparkbeam.streaming.status import Health, status
from sparkbeam.wire.timestamps import MAX_MICROS

NOW = 2_000_000_000.0
LAGGING = {"summary": {"source_watermark": int((NOW - 100) * 1e6)}}


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


def health(checkpoint: Path, **settings: Any) -> Health:
    return status(str(checkpoint), now=NOW, **settings).health


def test_a_pipeline_that_has_ended_is_well(checkpoint: Path) -> None:
    spark(checkpoint, "offsets/0", "commits/0", ago=1e6)
    found = status(str(checkpoint), now=NOW)
    assert (found.health, found.progress.micro_batch, found.is_well) == (Health.FINISHED, 1, True)
    (step,) = (step for step in found.progress.stages if "Group" in step.name)
    assert step.input_watermark is not None


def test_one_that_was_drained_is_told_from_one_that_ended_by_itself(checkpoint: Path) -> None:
    (checkpoint / "sparkbeam/drain").touch()
    found = status(str(checkpoint), now=NOW)
    assert (found.health, found.is_well, found.draining) == (Health.DRAINED, True, False)
    # Spark's sources have gone on for some micro-batches, and the last one was not committed.
    spark(checkpoint, "offsets/141", "commits/140", ago=1e6)
    found = status(str(checkpoint), now=NOW)
    assert (found.health, found.progress.micro_batch, found.pending) == (Health.DRAINED, 1, None)
    assert next(iter(found.lines())).startswith("drained: micro-batch 1 was committed ")


def test_a_drain_that_has_not_ended_is_told(checkpoint: Path) -> None:
    feedback(checkpoint)
    spark(checkpoint, "offsets/0", "commits/0", ago=1e6)
    (checkpoint / "sparkbeam/drain").touch()
    found = status(str(checkpoint), now=NOW)
    assert (found.health, found.draining) == (Health.IDLE, True)


def test_micro_batches_without_a_tick_do_not_hide_the_last_one_that_had_one(
    checkpoint: Path,
) -> None:
    feedback(checkpoint)
    spark(checkpoint, "offsets/0", "commits/0", "commits/6", ago=1e6)
    (checkpoint / "offsets/6").write_text('v1\n{}\n{"number": 1}\n17')
    found = status(str(checkpoint), now=NOW)
    assert (found.health, found.progress.micro_batch, found.since is None) == (
        Health.IDLE,
        1,
        False,
    )


def test_how_often_a_driver_was_started_is_told(checkpoint: Path) -> None:
    assert status(str(checkpoint), now=NOW).content()["generation"] == 1


def sign(checkpoint: Path, **changes: Any) -> None:
    """Has the program of the pipeline given a sign of life."""
    feedback(checkpoint, summary={"ended": int((NOW - 60) * 1e6)})
    spark(checkpoint, "offsets/0", "commits/0", ago=60)
    path = checkpoint / "sparkbeam/driver.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "written": NOW, **changes}))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"over": True, "state": "FAILED", "error": "Step 'Group' failed"}, Health.FAILED),
        ({"over": True, "state": "CANCELLED"}, Health.STOPPED),
        ({"over": True, "state": "DONE"}, Health.IDLE),
        ({"over": False, "state": "RUNNING"}, Health.IDLE),
        ({"over": False, "state": "RUNNING", "written": NOW - 29}, Health.IDLE),
        ({"over": False, "state": "RUNNING", "written": NOW - 31}, Health.GONE),
        # Another run has committed something since then, which leaves no signs.
        ({"over": False, "state": "RUNNING", "written": NOW - 100}, Health.IDLE),
    ],
)
def test_a_program_tells_how_it_ends_and_that_it_lives(
    checkpoint: Path, changes: dict[str, Any], expected: Health
) -> None:
    sign(checkpoint, **changes)
    found = status(str(checkpoint), now=NOW)
    assert found.health is expected
    assert found.is_well == (expected is Health.IDLE)
    assert found.content()["error"] == changes.get("error", "")
    assert ("Step 'Group' failed" in "\n".join(found.lines())) == (expected is Health.FAILED)


@pytest.mark.parametrize(
    ("started", "pending", "patience", "expected"),
    [
        (5, True, None, Health.STARTING),
        (90, True, None, Health.STARTING),
        (90, True, 10, Health.STARTING),
        (599, True, None, Health.STARTING),
        (601, True, None, Health.STUCK),
        (601, True, 700, Health.STARTING),
        (5, False, None, Health.STARTING),
        (601, False, None, Health.STUCK),
        # A micro-batch has been committed since the start, an hour ago.
        (4000, True, None, Health.STUCK),
        (None, True, None, Health.STUCK),
    ],
)
@pytest.mark.parametrize("max_lag", [None, 60])
def test_a_program_that_starts_after_a_downtime_is_starting(
    checkpoint: Path,
    started: float | None,
    pending: bool,
    patience: float | None,
    expected: Health,
    max_lag: float | None,
) -> None:
    begun = 0.0 if started is None else NOW - started
    sign(checkpoint, over=False, state="RUNNING", started=begun)
    ended = int((NOW - 3600) * 1e6)
    summary = {"ended": ended, "source_watermark": ended}
    feedback(checkpoint, summary=summary, due=None if pending else ended)
    spark(checkpoint, "offsets/0", "commits/0", *["offsets/1"] * pending, ago=3600)
    found = status(str(checkpoint), now=NOW, patience=patience, max_lag=max_lag)
    assert found.health is expected
    assert found.is_well == (expected is Health.STARTING)
    if expected is Health.STARTING:
        (headline, *_) = found.lines()
        assert headline.startswith("starting: ")
        assert "the program started " in headline


@pytest.mark.parametrize(("started", "expected"), [(5, Health.STARTING), (601, Health.IDLE)])
def test_the_first_start_is_one_too(checkpoint: Path, started: float, expected: Health) -> None:
    sign(checkpoint, over=False, state="RUNNING", started=NOW - started)
    for folder in ("offsets", "commits", "sparkbeam/feedback"):
        for entry in (checkpoint / folder).iterdir():
            entry.unlink()
    assert health(checkpoint) is expected


def test_a_program_with_nothing_to_do_is_idle_at_once(checkpoint: Path) -> None:
    sign(checkpoint, over=False, state="RUNNING", started=NOW - 5)
    assert health(checkpoint) is Health.IDLE


def test_what_is_finished_is_well_whatever_its_program_has_said(checkpoint: Path) -> None:
    sign(checkpoint, over=True, state="FAILED")
    (checkpoint / "sparkbeam/finished").write_text("1")
    assert health(checkpoint) is Health.FINISHED


DONE = ("offsets/0", "commits/0")


@pytest.mark.parametrize(
    ("last", "begun", "settings", "expected"),
    [
        ({}, None, {}, Health.IDLE),
        # A micro-batch may take a while, and a longer one after one that took long.
        ({}, 50, {}, Health.RUNNING),
        ({}, 70, {}, Health.STUCK),
        ({}, 70, {"patience": 80}, Health.RUNNING),
        ({"summary": {"duration": 20_000_000}}, 190, {}, Health.RUNNING),
        # One that misses its time is stuck.
        ({"due": int((NOW - 70) * 1e6)}, None, {}, Health.STUCK),
        ({"due": int((NOW - 10) * 1e6)}, None, {}, Health.IDLE),
        ({"due": int((NOW + 500) * 1e6)}, None, {}, Health.IDLE),
        # A lag has a limit if one is given.
        (LAGGING, None, {}, Health.IDLE),
        (LAGGING, None, {"max_lag": 200}, Health.IDLE),
        (LAGGING, None, {"max_lag": 50}, Health.BEHIND),
    ],
)
def test_the_last_micro_batch_and_the_one_that_has_begun_tell_the_health(
    checkpoint: Path,
    last: dict[str, Any],
    begun: float | None,
    settings: dict[str, float],
    expected: Health,
) -> None:
    (checkpoint / "sparkbeam/driver.json").unlink()
    feedback(checkpoint, **last)
    spark(checkpoint, *DONE, "offsets/.1.crc", ago=1e6)
    if begun is not None:
        spark(checkpoint, "offsets/1", ago=begun)
    assert health(checkpoint, **settings) is expected


def test_the_first_micro_batch_may_be_stuck(checkpoint: Path) -> None:
    feedback(checkpoint)
    spark(checkpoint, "offsets/0", ago=70)
    assert health(checkpoint) is Health.STUCK


@pytest.mark.parametrize(("over", "expected"), [(False, Health.STUCK), (True, Health.IDLE)])
def test_what_a_run_leaves_that_has_ended_in_order_is_not_late(
    checkpoint: Path, over: bool, expected: Health
) -> None:
    sign(checkpoint, over=over, state="DONE" if over else "RUNNING")
    feedback(checkpoint, due=int((NOW - 70) * 1e6))
    assert health(checkpoint) is expected


@pytest.mark.parametrize(("started", "expected"), [(5, Health.IDLE), (61, Health.BEHIND)])
def test_the_lag_of_a_downtime_is_no_failure_of_a_start(
    checkpoint: Path, started: float, expected: Health
) -> None:
    sign(checkpoint, over=False, state="RUNNING", started=NOW - started)
    ended = int((NOW - 3600) * 1e6)
    feedback(checkpoint, summary={"ended": ended, "source_watermark": ended})
    assert health(checkpoint, max_lag=60) is expected


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
