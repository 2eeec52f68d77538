"""A folder that micro-batches are written to, as its readers see it while the sink is killed."""

import json
import multiprocessing
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path

import pytest
from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems

from sparkbeam.connectors.committed_files import file_name
from sparkbeam.connectors.storage import BeamStorage, LocalStorage, Storage, storage
from sparkbeam.io import committed_files
from sparkbeam.streaming.folder_commits import FolderCommits, NotSeen, NotTrusted

SINK_ID = "0123456789ab-01234567"
BATCHES = 2
ROWS = 12


class Crash(Exception):
    """What the sink ends with where a test wants it to."""


class Unsteady(LocalStorage):
    """Storage that tells of each access before and after it; a move is one file at a time."""

    def __init__(self, reach: Callable[[], None]) -> None:
        self._reach = reach

    def read(self, path: str) -> bytes | None:
        self._reach()
        return super().read(path)

    def write(self, path: str, content: bytes) -> None:
        self._reach()
        super().write(path, content)
        self._reach()

    def names(self, folder: str) -> list[str]:
        found = super().names(folder)
        if folder.endswith("_spark_metadata"):
            self._reach()
        return found

    def create(self, path: str, content: bytes) -> bool:
        self._reach()
        created = super().create(path, content)
        self._reach()
        return created

    def move(self, moves: Mapping[str, str]) -> None:
        for source, target in moves.items():
            self._reach()
            super().move({source: target})
            self._reach()

    def remove(self, folder: str) -> None:
        self._reach()
        super().remove(folder)
        self._reach()


def rows_of(batch_id: int) -> list[int]:
    return list(range(batch_id * ROWS, (batch_id + 1) * ROWS))


def as_spark(
    batch_id: int, chance: random.Random, reach: Callable[[], None]
) -> Callable[[str], None]:
    """Writes a micro-batch as Spark does: into folders of a partition, each time divided anew."""

    def write(folder: str) -> None:
        rows = rows_of(batch_id)
        chance.shuffle(rows)
        files = chance.randint(1, 4)
        for number in range(files):
            path = Path(folder, f"odd={number % 2}", f"part-0-x-c{number:03d}.txt")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.with_name(f".{path.name}.crc").write_bytes(b"")
            path.write_text("".join(f"{row}\n" for row in rows[number::files]))
            reach()
        Path(folder, "_SUCCESS").touch()
        reach()

    return write


def rows_in(files: list[str]) -> Counter[int]:
    return Counter(int(line) for file in files for line in Path(file).read_text().splitlines())


class Reader:
    """Looks at a folder as anybody may, and as one who asks for the committed files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: Counter[int] = Counter()
        self._committed: Counter[int] = Counter()

    @property
    def whole(self) -> int:
        """How many micro-batches it has seen."""
        return len(self._committed) // ROWS

    def look(self) -> None:
        whole = rows_in(committed_files(str(self._folder)))
        found = rows_in([str(path) for path in self._folder.rglob("part-*") if path.is_file()])
        assert max(found.values(), default=1) == 1, "no row twice"
        assert not self._seen - found, "nothing goes away"
        assert not self._committed - whole
        assert not whole - found
        assert sorted(whole) == list(range(len(whole)))
        assert len(whole) % ROWS == 0, "no part of a micro-batch"
        self._seen, self._committed = found, whole


def run(
    folder: Path,
    kept: Storage,
    chance: random.Random,
    reach: Callable[[], None],
    batches: int = BATCHES,
    *,
    has_manifest: bool = False,
) -> None:
    """What a query does from its start: the micro-batches that the folder may not have."""
    commits = FolderCommits(str(folder), SINK_ID, kept, has_manifest=has_manifest)
    for batch_id in range(batches):
        commits.commit(batch_id, as_spark(batch_id, chance, reach))


def crashes(folder: Path, at: int, batches: int, *, has_manifest: bool) -> bool:
    """Runs to the end, over a crash at an access; whether it came to that."""
    accesses, chance, reader = count(), random.Random(at), Reader(folder)

    def reach() -> None:
        reader.look()
        if next(accesses) == at:
            raise Crash

    crashed = False
    try:
        run(folder, Unsteady(reach), chance, reach, batches, has_manifest=has_manifest)
    except Crash:
        crashed = True
        run(folder, Unsteady(reach), chance, reach, batches, has_manifest=has_manifest)
    reader.look()
    assert len(rows_in(committed_files(str(folder)))) == batches * ROWS
    return crashed


@pytest.mark.parametrize(("has_manifest", "batches"), [(False, BATCHES), (True, 1)])
def test_a_crash_at_any_access_loses_and_doubles_nothing_at_any_time(
    has_manifest: bool, batches: int, tmp_path: Path
) -> None:
    for at in count():
        if not crashes(tmp_path / str(at), at, batches, has_manifest=has_manifest):
            break
    assert at > 20, "the sink was stopped wherever it does something"


def writes(folder: str, first: int, seed: int) -> None:
    """Writes some micro-batches, of which the first may be there, and waits to be killed."""
    commits = FolderCommits(folder, SINK_ID)
    chance = random.Random(seed)
    for batch_id in range(first, first + 3):
        commits.commit(batch_id, as_spark(batch_id, chance, lambda: None))
    time.sleep(60)


def test_a_reader_sees_whole_micro_batches_while_the_writer_is_killed(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    processes = multiprocessing.get_context("fork")
    reader, chance = Reader(folder), random.Random(1)
    for kill in range(8):
        first = reader.whole
        writer = processes.Process(target=writes, args=(str(folder), first, kill))
        writer.start()
        try:
            while reader.whole == first and writer.is_alive():
                reader.look()
            for _ in range(chance.randint(1, 20)):
                reader.look()
        finally:
            writer.kill()
            writer.join()
        reader.look()
    assert reader.whole >= 8


def test_nothing_but_data_is_in_the_folder_and_nothing_is_left_aside(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    run(folder, LocalStorage(), random.Random(1), lambda: None)
    names = [path.name for path in folder.rglob("*") if path.is_file()]
    assert all(name.startswith(f"part-{SINK_ID}-00000000") for name in names)
    assert all(name.endswith(".txt") for name in names)
    hidden = [path for path in (tmp_path / ".out.sparkbeam").rglob("*") if path.is_file()]
    assert [path.name for path in hidden] == [SINK_ID]


def test_files_of_others_and_without_a_list_count_as_committed(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    run(folder, LocalStorage(), random.Random(1), lambda: None)
    (folder / "part-00000-of-somebody.txt").write_text(f"{BATCHES * ROWS}\n")
    (folder / "_SUCCESS").touch()
    assert len(rows_in(committed_files(str(folder)))) == BATCHES * ROWS + 1
    folder.rename(tmp_path / "moved")
    assert len(rows_in(committed_files(str(tmp_path / "moved")))) == BATCHES * ROWS + 1
    assert committed_files(str(tmp_path / "nothing")) == []


def test_a_folder_that_spark_itself_streams_into_is_refused(tmp_path: Path) -> None:
    (tmp_path / "_spark_metadata").mkdir()
    (tmp_path / "_spark_metadata" / "0").touch()
    with pytest.raises(NotSeen, match="layout='manifest' in WriteToSpark, or write to"):
        FolderCommits(str(tmp_path), SINK_ID).resume()


@pytest.mark.parametrize("name", [f"committed/{SINK_ID}", f"{SINK_ID}/moves"])
@pytest.mark.parametrize("content", [b"", b'{"la', b"[1", b"[" * 100_000, b"1"])
def test_what_is_damaged_is_named_with_the_remedy(
    tmp_path: Path, name: str, content: bytes
) -> None:
    folder = tmp_path / "out"
    run(folder, LocalStorage(), random.Random(1), lambda: None)
    damaged = tmp_path / ".out.sparkbeam" / name
    LocalStorage().write(str(damaged), content)
    with pytest.raises(ValueError, match=r"is damaged\. It records .*: restore it, or") as caught:
        FolderCommits(str(folder), SINK_ID).resume()
    assert str(damaged) in str(caught.value)


HOSTILE = [
    "../../victim",
    "odd=0/../../../victim",
    "{victim}",
    "",
    "./x",
    "a//x",
    "odd=0/",
    "x\0",
    "evil.txt",
    "odd=0/part-0123456789ab-99999999-000000002-00000.txt",
    "odd=0/part-0123456789ab-01234567-000000001-00000.txt",
]
"""Where no sink moves a file of micro-batch 2 to."""


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("side", ["source", "target"])
def test_moves_that_no_sink_notes_are_refused(side: str, hostile: str, tmp_path: Path) -> None:
    folder, victim = tmp_path / "out", tmp_path / "victim"
    run(folder, LocalStorage(), random.Random(1), lambda: None)
    victim.write_text("mine")
    hostile = hostile.replace("{victim}", str(victim))
    own = {"source": "2-01234567/odd=0/x.txt", "target": file_name(SINK_ID, 2, 0, "x.txt")}
    work = tmp_path / ".out.sparkbeam" / SINK_ID
    LocalStorage().write(str(work / own["source"]), b"0\n")
    own[side] = hostile
    LocalStorage().write(
        str(work / "moves"), json.dumps([2, {own["source"]: own["target"]}]).encode()
    )
    before = sorted(path for path in tmp_path.rglob("*"))
    with pytest.raises(NotTrusted, match="another user has written it") as refused:
        FolderCommits(str(folder), SINK_ID).resume()
    assert str(work / "moves") in str(refused.value)
    assert sorted(path for path in tmp_path.rglob("*")) == before
    assert victim.read_text() == "mine"


@pytest.mark.parametrize("moves", [[], [["a", "b"]], {"2-01234567/x": 5}, {"2-01234567/x": None}])
def test_moves_of_another_form_are_refused(moves: object, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    work = tmp_path / ".out.sparkbeam" / SINK_ID
    LocalStorage().write(str(work / "moves"), json.dumps([2, moves]).encode())
    if moves:
        with pytest.raises((NotTrusted, ValueError), match=r"is damaged|requests a move"):
            FolderCommits(str(folder), SINK_ID).resume()
    else:
        FolderCommits(str(folder), SINK_ID).resume()


def test_a_log_that_a_link_leads_elsewhere_is_not_written(tmp_path: Path) -> None:
    (tmp_path / "victim").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "_spark_metadata").symlink_to(tmp_path / "victim")
    with pytest.raises(NotTrusted, match=r"symbolic link leads .*_spark_metadata"):
        FolderCommits(str(tmp_path / "out"), SINK_ID, has_manifest=True).resume()
    assert not [*(tmp_path / "victim").iterdir()]


@pytest.mark.parametrize("linked", ["out", "work", "file"])
def test_a_link_out_of_the_folder_is_not_followed(linked: str, tmp_path: Path) -> None:
    folder, victim = tmp_path / "out", tmp_path / "victim"
    victim.mkdir()
    (victim / "x.txt").write_text("mine")
    folder.mkdir()
    attempt = tmp_path / ".out.sparkbeam" / SINK_ID / "2-01234567"
    (attempt / "odd=1").mkdir(parents=True)
    if linked == "out":
        (folder / "odd=0").symlink_to(victim)
        LocalStorage().write(str(attempt / "odd=0/x.txt"), b"0\n")
    elif linked == "work":
        (attempt / "odd=0").symlink_to(victim)
    else:
        (attempt / "odd=0").mkdir()
        (attempt / "odd=0/x.txt").symlink_to(victim / "x.txt")
    moves = {"2-01234567/odd=0/x.txt": f"odd=0/{file_name(SINK_ID, 2, 0, 'x.txt')}"}
    LocalStorage().write(str(attempt.parent / "moves"), json.dumps([2, moves]).encode())
    with pytest.raises(NotTrusted, match=r"symbolic link leads .*odd=0"):
        FolderCommits(str(folder), SINK_ID).resume()
    assert [path.name for path in victim.iterdir()] == ["x.txt"]
    assert not list(folder.rglob("part-*"))


@pytest.mark.parametrize("place", [".", "committed", SINK_ID])
def test_a_folder_beside_the_output_that_others_may_write_to_is_refused(
    place: str, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    run(folder, LocalStorage(), random.Random(1), lambda: None)
    hidden = tmp_path / ".out.sparkbeam" / place
    hidden.mkdir(exist_ok=True)
    hidden.chmod(0o777)
    with pytest.raises(NotTrusted, match=r"all users may write to it.*chmod go-w") as refused:
        FolderCommits(str(folder), SINK_ID).resume()
    assert str(hidden) in str(refused.value)


def test_what_only_spark_sees_is_an_error_and_not_lost(tmp_path: Path) -> None:
    with pytest.raises(NotSeen, match="does not see"):
        FolderCommits(str(tmp_path), SINK_ID).commit(0, lambda folder: None)


@pytest.mark.parametrize(
    ("written", "ending"),
    [
        ("part-00000-4c1e-c000.snappy.parquet", ".snappy.parquet"),
        ("part-00000-4c1e.c000.snappy.parquet", ".snappy.parquet"),
        ("part-00000-4c1e-c000.csv.gz", ".csv.gz"),
        ("part-00000-4c1e-c000.txt", ".txt"),
        ("part-00000-4c1e-c000", ""),
    ],
)
def test_a_file_keeps_the_suffixes_that_tell_its_format(written: str, ending: str) -> None:
    assert file_name(SINK_ID, 17, 3, written) == f"part-{SINK_ID}-000000017-00003{ending}"


@pytest.mark.parametrize("has_manifest", [False, True])
def test_beams_file_systems_do_the_same(has_manifest: bool, tmp_path: Path) -> None:
    folder, kept = tmp_path / "out", BeamStorage()
    run(folder, kept, random.Random(1), lambda: None, has_manifest=has_manifest)
    assert len(rows_in(committed_files(str(folder)))) == BATCHES * ROWS
    (mark,) = kept.names(f"{tmp_path}/.out.sparkbeam")
    assert json.loads(kept.read(f"{tmp_path}/.out.sparkbeam/{mark}") or "") == {"last": BATCHES - 1}


def test_moves_that_another_driver_makes_meanwhile_are_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, rename = BeamStorage(), FileSystems.rename
    moves = {f"{tmp_path}/{name}": f"{tmp_path}/to/{name}" for name in "abc"}
    for source in moves:
        kept.write(source, b"")

    def meanwhile(sources: list[str], targets: list[str]) -> None:
        monkeypatch.setattr(FileSystems, "rename", rename)
        rename(sources[1:2], targets[1:2])
        rename(sources, targets)

    monkeypatch.setattr(FileSystems, "rename", meanwhile)
    kept.move(moves)
    assert kept.names(str(tmp_path)) == ["to/a", "to/b", "to/c"]


def test_moves_that_fail_are_an_error(tmp_path: Path) -> None:
    kept = BeamStorage()
    kept.write(f"{tmp_path}/a", b"")
    (tmp_path / "to").touch()
    with pytest.raises((OSError, BeamIOError)):
        kept.move({f"{tmp_path}/a": f"{tmp_path}/to/a"})


def test_storage_that_nobody_knows_is_an_error() -> None:
    with pytest.raises(ValueError, match="nosuch"):
        storage("nosuch://bucket/folder")
