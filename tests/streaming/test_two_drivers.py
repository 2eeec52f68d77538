"""Two drivers over one checkpoint: the older one ends, and what comes out is exactly once.

A driver stands still at a point, another one is started, does something, and the first one wakes
up: at each point of a micro-batch, and at each access to a file.
"""

import json
import multiprocessing
import pickle
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from command import command
from in_process import Crash, Crashes, Point, Spark, Writer, rounds, streaming_pipeline
from numbers_sink import start, written
from test_folder_commits import BATCHES, ROWS, SINK_ID, Reader, Unsteady, as_spark, rows_in

from sparkbeam.common import local_files
from sparkbeam.errors import CheckpointTaken, ConfigurationError, PipelineFailed
from sparkbeam.io import committed_files
from sparkbeam.streaming import tick_source
from sparkbeam.streaming.checkpoint_files import (
    LocalFiles,
    RemoteFiles,
    ServerFiles,
    checkpoint_id,
    files,
)
from sparkbeam.streaming.feedback import Feedback, FeedbackFiles
from sparkbeam.streaming.folder_commits import FolderCommits
from sparkbeam.streaming.generation import Generation, OwnFiles, newest

pytestmark = pytest.mark.usefixtures("by_value")


NUMBERS = list(range(12))


@pytest.fixture(autouse=True)
def short_micro_batches(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(tick_source, "_LOOK_SECONDS", 0)
    with rounds(4):
        yield


def run(spark: Spark, folder: Path) -> None:
    start(spark, folder, len(NUMBERS), seconds=2).wait_until_finish()


def fresh(folder: Path, name: str) -> Path:
    found = folder / name
    found.mkdir(exist_ok=True)
    return found


def beside(other: Spark) -> Spark:
    """Another driver's session over the checkpoints of one."""
    spark = Spark()
    spark.checkpoints = other.checkpoints
    return spark


class Standstill:
    """Lets a driver stand still when it is somewhere for the first time; then it goes on.

    Args:
        at: the point.
        meanwhile: what happens there.
    """

    def __init__(self, at: Any, meanwhile: Callable[[], None]) -> None:
        self._at = at
        self._meanwhile = meanwhile
        self.stood = False

    def __call__(self, point: Any) -> None:
        if point == self._at and not self.stood:
            self.stood = True
            self._meanwhile()


def points(folder: Path) -> list[Point]:
    """Where a run of the program can stand still."""
    spark = Spark()
    run(spark, folder)
    return list(dict.fromkeys(spark.points))


def runs_and_crashes(spark: Spark, folder: Path, at: Point) -> None:
    """Runs a driver until it crashes somewhere, if it comes there."""
    crashes = Crashes(at)
    spark.crash = crashes
    try:
        run(spark, folder)
    except PipelineFailed:
        assert crashes.points


def test_a_driver_that_wakes_up_ends_with_an_error_wherever_it_stood(tmp_path: Path) -> None:
    """The other one does all that is left."""
    found = points(fresh(tmp_path, "whole"))
    for number, point in enumerate(found):
        folder = fresh(tmp_path, str(number))
        spark = Spark()
        other = beside(spark)
        spark.crash = Standstill(point, partial(run, other, folder))
        if point == found[-1]:
            run(spark, folder)  # All was done.
        else:
            with pytest.raises(CheckpointTaken) as ended:
                run(spark, folder)
            text = str(ended.value)
            assert str(folder / "checkpoint") in text
            assert "generation 1, and generation 2 began" in text
            assert "another --checkpoint_location" in text
        assert written(folder) == NUMBERS, point


def test_what_the_older_driver_left_and_a_crash_of_the_newer_lose_and_double_nothing(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    found = points(fresh(tmp_path, "points"))
    for number, stood in enumerate(found[:-1]):
        crashes = found if pytestconfig.getoption("whole") else [found[(5 * number) % len(found)]]
        for crashed in crashes:
            folder = fresh(tmp_path, f"{found.index(stood)}-{found.index(crashed)}")
            spark = Spark()
            other = beside(spark)
            spark.crash = Standstill(stood, partial(runs_and_crashes, other, folder, crashed))
            try:
                run(spark, folder)
            except CheckpointTaken:
                pass
            else:
                assert spark.points[-1] == found[-1], "it was the first to commit the last one"
            run(beside(spark), folder)
            assert written(folder) == NUMBERS, (stood, crashed)


# Files under the checkpoint.


@pytest.mark.parametrize("access", ["write", "create"])
def test_an_older_driver_that_stood_in_the_middle_of_a_write_writes_nothing(
    access: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = LocalFiles(str(tmp_path))
    old = OwnFiles(kept, Generation.begin(kept, str(tmp_path)))
    FeedbackFiles(old).write(Feedback(1, finished=False, due=None))
    put = local_files._put

    def stands(path: Path, content: bytes, *, outlives: bool) -> None:
        put(path, content, outlives=outlives)
        monkeypatch.setattr(local_files, "_put", put)
        new = OwnFiles(kept, Generation.begin(kept, str(tmp_path)))
        FeedbackFiles(new).write(Feedback(1, finished=True, due=None))

    if access == "write":
        monkeypatch.setattr(local_files, "_put", stands)
    else:
        stands(tmp_path / "x", b"", outlives=False)
    with pytest.raises(CheckpointTaken):
        getattr(old, access)("feedback/1.json", b"{}")
    found = FeedbackFiles(kept).read(1)
    assert found is not None
    assert found.finished
    assert not list(tmp_path.rglob("*.tmp"))


def test_starts_at_once_have_different_numbers_and_the_same_id(tmp_path: Path) -> None:
    with ProcessPoolExecutor(4, multiprocessing.get_context("fork")) as processes:
        found = list(processes.map(started, [str(tmp_path)] * 24))
    numbers = {number for number, _ in found}
    assert len(numbers) == 24
    # Only a start that stood while ten others began leaves its number out.
    left_out = set(range(1, max(numbers))) - numbers
    assert max(left_out, default=0) <= max(numbers) - 10
    assert len({id for _, id in found}) == 1


def test_a_start_that_stood_while_ten_others_began_is_the_newest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = LocalFiles.create

    def stands(kept: LocalFiles, name: str, content: bytes, *, outlives: bool = True) -> bool:
        made = create(kept, name, content, outlives=outlives)
        monkeypatch.setattr(LocalFiles, "create", create)
        assert [started(str(tmp_path))[0] for _ in range(10)] == list(range(2, 12))
        return made

    monkeypatch.setattr(LocalFiles, "create", stands)
    assert started(str(tmp_path))[0] == 12


def started(checkpoint: str) -> tuple[int, str]:
    kept = LocalFiles(checkpoint)
    return Generation.begin(kept, checkpoint).number, checkpoint_id(kept)


def test_of_two_starts_with_one_number_the_one_whose_file_is_there_goes_on(tmp_path: Path) -> None:
    """As on storage that cannot promise that a file is not there yet."""
    kept = LocalFiles(str(tmp_path))
    one = Generation.begin(kept, str(tmp_path))
    kept.remove(f"generations/{one.number}")
    other = Generation.begin(kept, str(tmp_path))
    assert one.number == other.number
    other.check(kept)
    with pytest.raises(CheckpointTaken, match="generation 1, of another start, began"):
        one.check(kept)


def test_what_a_start_says_of_itself_may_be_damaged_and_its_number_counts(tmp_path: Path) -> None:
    kept = LocalFiles(str(tmp_path))
    old = Generation.begin(kept, str(tmp_path))
    for content in (b"", b"[]", b"\xff", b'{"token":', b"[" * 100_000):
        (tmp_path / "sparkbeam/generations/2").write_bytes(content)
        with pytest.raises(CheckpointTaken, match="generation 2 began since"):
            old.check(kept)
    assert Generation.begin(kept, str(tmp_path)).number == 3


def test_many_starts_leave_few_files_and_old_ones_are_still_refused(tmp_path: Path) -> None:
    kept = LocalFiles(str(tmp_path))
    first, *_ = [Generation.begin(kept, str(tmp_path)) for _ in range(30)]
    assert len(kept.names("generations")) <= 10
    assert newest(kept) == 30
    with pytest.raises(CheckpointTaken):
        first.check(kept)


class Server:
    """A Spark Connect session, as far as files go: tasks arrive there pickled."""

    def range(self, *_: int) -> Any:
        return SimpleNamespace(mapInArrow=self._run)

    def _run(self, task: Any, schema: str) -> Any:
        batches = pickle.loads(pickle.dumps(task))(iter([pa.record_batch([[0]], names=["id"])]))
        (batch,) = batches
        return SimpleNamespace(collect=lambda: [(row,) for row in batch.column(0).to_pylist()])


@pytest.mark.parametrize("is_of_server", [False, True], ids=["file systems of Beam", "server"])
def test_files_elsewhere_are_fenced_too(is_of_server: bool, tmp_path: Path) -> None:
    kept: Any = RemoteFiles(str(tmp_path))
    if is_of_server:
        kept = ServerFiles(Server(), str(tmp_path))
    assert (kept.names("generations"), kept.untrusted_reason()) == ([], None)
    old = OwnFiles(kept, Generation.begin(kept, str(tmp_path)))
    old.write("note", b"old")
    new = OwnFiles(kept, Generation.begin(kept, str(tmp_path)))
    assert not new.create("note", b"other")
    assert new.create("other", b"")
    new.write("note", b"new")
    for write in (old.write, old.create):
        with pytest.raises(CheckpointTaken):
            write("note", b"older")
    with pytest.raises(CheckpointTaken):
        old.remove("note")
    assert kept.read("note") == b"new"
    assert (old.number, new.number) == (1, 2)
    tmp_path.chmod(0o777)
    assert ("all users may write to it" in (kept.untrusted_reason() or "")) is is_of_server


@pytest.mark.parametrize("is_newest", [True, False])
def test_a_driver_that_begins_a_checkpoint_at_once_with_another_goes_on_if_it_is_the_newest(
    is_newest: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = Writer.start

    def fails(writer: Writer) -> Any:
        monkeypatch.setattr(Writer, "start", start)
        if not is_newest:
            started(str(tmp_path / "checkpoint"))
        raise RuntimeError("Multiple streaming queries are concurrently using metadata. Rename")

    spark = Spark()
    monkeypatch.setattr(Writer, "start", fails)
    if not is_newest:
        with pytest.raises(CheckpointTaken):
            run(spark, tmp_path)
    run(spark, tmp_path)
    assert written(tmp_path) == NUMBERS


def test_a_program_that_may_not_go_on_leaves_the_one_that_runs_in_peace(tmp_path: Path) -> None:
    def other() -> None:
        with (
            pytest.raises(ConfigurationError, match="the state of another pipeline"),
            streaming_pipeline(beside(spark), tmp_path / "checkpoint") as p,
        ):
            _ = p | beam.Create([("a", 1)]) | "Other" >> beam.GroupByKey()

    spark = Spark()
    standstill = Standstill((0, "operator 1"), other)
    spark.crash = standstill
    run(spark, tmp_path)
    assert standstill.stood
    assert written(tmp_path) == NUMBERS


def test_an_older_driver_neither_drains_the_newer_one_nor_gives_signs_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = tmp_path / "checkpoint"
    spark = Spark()

    def meanwhile() -> None:
        run(beside(spark), tmp_path)
        (checkpoint / "sparkbeam/finished").unlink()

    spark.crash = Standstill((0, "operator 1"), meanwhile)
    result = start(spark, tmp_path, len(NUMBERS), seconds=2)
    with pytest.raises(CheckpointTaken):
        result.wait_until_finish()
    content = json.loads(command("status", "--json", checkpoint).output)
    assert (content["health"], content["error"], content["generation"]) == ("idle", "", 2)
    kept = files(str(checkpoint))
    old = OwnFiles(kept, Generation(str(checkpoint), 1, "x"))
    with pytest.raises(CheckpointTaken):
        FeedbackFiles(old).ask_to_drain()
    assert not FeedbackFiles(kept).is_to_drain()


def test_a_newer_driver_goes_on_where_an_older_one_was_quicker_to_commit(tmp_path: Path) -> None:
    """The older one stood between its sinks and Spark's commit, and wakes up in the middle."""
    spark = Spark()
    other = beside(spark)
    batch = spark.checkpoints[str(tmp_path / "checkpoint")]

    def commits(point: Point) -> None:
        if point == (0, "sink") and batch.commits == 0:
            batch.commits = 1  # As the older one does, which no file of ours can prevent.

    other.crash = commits
    spark.crash = Standstill((0, "sink"), lambda: run(other, tmp_path))
    with pytest.raises(CheckpointTaken):
        run(spark, tmp_path)
    assert newest(files(str(tmp_path / "checkpoint"))) == 3
    assert written(tmp_path) == NUMBERS


# The sink of files.


class Folder:
    """A folder that two drivers write to, and their checkpoint."""

    def __init__(self, path: Path, *, has_manifest: bool = False) -> None:
        self._has_manifest = has_manifest
        self.out = path / "out"
        self._kept = LocalFiles(str(path / "checkpoint"))
        self._checkpoint = str(path / "checkpoint")
        self.reader = Reader(self.out)

    def driver(self, reach: Callable[[], None], chance: random.Random) -> None:
        """Runs the micro-batches that the folder may not have, as a new generation."""
        own = OwnFiles(self._kept, Generation.begin(self._kept, self._checkpoint))

        def check() -> None:
            own.check()
            reach()  # It may stand still between what it has looked at and what it does.

        commits = FolderCommits(
            str(self.out),
            SINK_ID,
            Unsteady(reach),
            own.number,
            check,
            has_manifest=self._has_manifest,
        )
        for batch_id in range(BATCHES):
            commits.commit(batch_id, as_spark(batch_id, chance, reach))


def nothing() -> None:
    """Goes on."""


class Access:
    """Does something at one of many accesses, and lets a reader look at each.

    Args:
        look: what the reader does.
        at: the number of the access.
        there: what is done.
    """

    def __init__(self, look: Callable[[], None], at: int, there: Callable[[], None]) -> None:
        self._look, self._at, self._there = look, at, there
        self.number = -1

    def __call__(self) -> None:
        self.number += 1
        self._look()
        if self.number == self._at:
            self._there()


def crash() -> None:
    raise Crash


def interleaved(path: Path, stood: int, crashed: int | None, *, has_manifest: bool) -> bool:
    """Lets a driver stand still at an access, and another one run until it crashes or ends."""
    folder = Folder(path, has_manifest=has_manifest)
    look = folder.reader.look if crashed is None else nothing

    def meanwhile() -> None:
        reach = nothing if crashed is None else Access(look, crashed, crash)
        with suppress(Crash):
            folder.driver(reach, random.Random(stood + 1))

    older = Access(look, stood, meanwhile)
    with suppress(CheckpointTaken):
        folder.driver(older, random.Random(stood))
    folder.reader.look()
    folder.driver(Access(look, -1, nothing), random.Random(stood + 2))
    folder.reader.look()
    assert len(rows_in(committed_files(str(folder.out)))) == BATCHES * ROWS, (stood, crashed)
    hidden = [file for file in (path / ".out.sparkbeam").rglob("*") if file.is_file()]
    assert all(file.parent.name == "committed" for file in hidden), "nothing is left aside"
    return older.number >= stood


@pytest.mark.parametrize(("has_manifest", "step"), [(False, 1), (True, 3)])
def test_two_drivers_of_a_folder_lose_and_double_nothing_wherever_one_stands(
    has_manifest: bool, step: int, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    for stood in count(step=1 if pytestconfig.getoption("whole") else step):
        if not interleaved(tmp_path / str(stood), stood, None, has_manifest=has_manifest):
            break
    assert stood > 30, "it stood wherever it does something"


@pytest.mark.parametrize(("has_manifest", "accesses", "step"), [(False, 60, 1), (True, 120, 4)])
def test_two_drivers_and_a_crash_lose_and_double_nothing(
    has_manifest: bool, accesses: int, step: int, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    step, every = (1, 5) if pytestconfig.getoption("whole") else (step, 41 * step)
    for stood in range(0, accesses, step):
        for crashed in range(stood % every, accesses, every):
            path = tmp_path / f"{stood}-{crashed}"
            interleaved(path, stood, crashed, has_manifest=has_manifest)


def test_a_note_that_came_too_late_is_of_no_effect(tmp_path: Path) -> None:
    """The older driver stood just before it noted its moves; what it wrote is gone by now."""
    folder, chance = Folder(tmp_path), random.Random(1)
    folder.driver(nothing, chance)
    late = {"2-01234567/part-0-x-c000.txt": f"part-{SINK_ID}-000000002-00000.txt"}
    note = tmp_path / f".out.sparkbeam/{SINK_ID}/1/moves"
    folder.driver(nothing, chance)
    note.parent.mkdir()
    note.write_text(json.dumps([2, late]))
    commits = FolderCommits(str(folder.out), SINK_ID, generation=3)
    commits.commit(2, as_spark(2, chance, nothing))
    assert len(rows_in(committed_files(str(folder.out)))) == (BATCHES + 1) * ROWS
