"""Disks that are full, files that are damaged: named, and nothing is lost or comes twice."""

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from in_process import Crash, FailingWrites, Point, Spark, rounds
from numbers_sink import start, written

from sparkbeam.errors import CheckpointFailed, PipelineFailed
from sparkbeam.streaming.checkpoint_files import LocalFiles
from sparkbeam.streaming.feedback import Feedback, FeedbackFiles

pytestmark = pytest.mark.usefixtures("by_value")


NUMBERS = list(range(24))


@rounds(4)
def run(spark: Spark, folder: Path) -> None:
    start(spark, folder, len(NUMBERS), seconds=6).wait_until_finish()


def test_a_full_disk_is_named_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes = FailingWrites(monkeypatch, every=3)
    spark, told = Spark(), []
    while True:
        try:
            run(spark, tmp_path)
        except CheckpointFailed as error:
            told.append(str(error))
        else:
            break
    for text in told:
        assert str(tmp_path / "checkpoint/sparkbeam") in text
        assert "No space left on device" in text
        assert "over the same --checkpoint_location" in text
    assert len(told) == writes.failed >= 2
    assert written(tmp_path) == NUMBERS


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def garble(path: Path) -> None:
    path.write_bytes(os.urandom(60))


@pytest.mark.parametrize("damage", [Path.unlink, truncate, garble])
def test_a_restart_over_damaged_feedback_ends_and_loses_nothing(
    damage: Callable[[Path], None], tmp_path: Path
) -> None:
    crashes: set[Point] = set()

    def crash(point: Point) -> None:
        # Each restart makes another micro-batch, which finds out what is left to do.
        if point[0] < 3 and point[1] in ("planned", "committed") and point not in crashes:
            crashes.add(point)
            raise Crash(str(point))

    spark, folder = Spark(crash), tmp_path / "checkpoint/sparkbeam"
    ended, told = 0, []
    while ended < 2:
        try:
            run(spark, tmp_path)
        except CheckpointFailed as error:
            named = next(path for path in folder.rglob("*.json") if str(path) in str(error))
            named.unlink()
            told.append(str(error))
            continue
        except PipelineFailed:
            assert crashes
        else:
            ended += 1
        for path in (*folder.glob("feedback/*"), *folder.glob("finished")):
            damage(path)
    assert written(tmp_path) == NUMBERS
    assert all("or remove it: metrics then count from here on" in text for text in told)
    assert bool(told) == (damage is not Path.unlink)


@pytest.mark.parametrize("damage", [truncate, garble, Path.unlink])
def test_a_checkpoint_that_may_be_another_pipelines_is_not_used(
    damage: Callable[[Path], None], tmp_path: Path
) -> None:
    run(Spark(), tmp_path)
    (tmp_path / "checkpoint/metadata").write_text("{}")
    path = tmp_path / "checkpoint/sparkbeam/pipeline.json"
    damage(path)
    with pytest.raises(CheckpointFailed) as failed:
        run(Spark(), tmp_path)
    assert f"The checkpoint file {path} is " in str(failed.value)
    assert "another --checkpoint_location" in str(failed.value)


@pytest.mark.parametrize("damage", [truncate, garble])
def test_damaged_metadata_of_spark_are_named(
    damage: Callable[[Path], None], tmp_path: Path
) -> None:
    run(Spark(), tmp_path)
    path = tmp_path / "checkpoint/metadata"
    path.write_text('{"id":"8c4ddc52-0fad-40cd-8ea4-a906c6304424"}')
    damage(path)
    with pytest.raises(CheckpointFailed) as failed:
        run(Spark(), tmp_path)
    assert f"The checkpoint file {path} is damaged" in str(failed.value)


def test_the_end_of_a_run_is_noted_again(tmp_path: Path) -> None:
    feedback = FeedbackFiles(LocalFiles(str(tmp_path)))
    end = Feedback(7, finished=True, due=None)
    feedback.write(end)
    (tmp_path / "sparkbeam/finished").write_text("x")
    assert feedback.last_number() is None
    feedback.restore(end)
    assert feedback.last_number() == 7


def test_feedback_keeps_its_form_in_files(tmp_path: Path) -> None:
    files = LocalFiles(str(tmp_path))
    written = Feedback(7, finished=False, due=None, hidden={"0": ("topic/1",)})
    FeedbackFiles(files).write(written)
    assert json.loads(files.read("feedback/7.json") or b"")["pending"] == {"0": ["topic/1"]}
    assert FeedbackFiles(files).read(7) == written


def test_a_write_that_fails_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = LocalFiles(str(tmp_path))
    files.write("note", b"before")
    FailingWrites(monkeypatch, every=1, error=errno.EDQUOT)
    with pytest.raises(CheckpointFailed, match=r"note cannot be written: .*quota"):
        files.write("note", b"after")
    assert files.read("note") == b"before"
