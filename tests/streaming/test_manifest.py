"""The log of a folder that Spark's own readers follow."""

import json
import os
import threading
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from sparkbeam.connectors.committed_files import committed_files
from sparkbeam.connectors.manifest import Manifest
from sparkbeam.connectors.storage import LocalStorage


def put(folder: Path, name: str) -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{name}\n")
    return name


def log_of(folder: Path) -> list[str]:
    """The names of its files; those that are just being written have no number."""
    names = (path.name for path in (folder / "_spark_metadata").iterdir())
    return sorted(name for name in names if name.removesuffix(".compact").isdecimal())


def as_spark_reads(folder: Path, interval: int = 10) -> list[str]:
    """The paths that ``CompactibleFileStreamLog.allFiles`` finds."""
    last = max(int(name.removesuffix(".compact")) for name in log_of(folder))
    found = []
    for number in range(max(0, (last + 1) // interval * interval - 1), last + 1):
        name = f"{number}.compact" if (number + 1) % interval == 0 else str(number)
        version, *lines = (folder / "_spark_metadata" / name).read_text().split("\n")
        assert version == "v1"
        found += [json.loads(line)["path"] for line in lines]
    return found


def test_an_entry_has_the_form_of_sparks_own(tmp_path: Path) -> None:
    folder = tmp_path / "a b%é"
    Manifest(LocalStorage(), str(folder)).add([put(folder, "day=1 2/x.txt")])
    assert log_of(folder) == ["0"]
    lines = (folder / "_spark_metadata" / "0").read_text().split("\n")
    assert lines[0] == "v1"
    stat = (folder / "day=1 2" / "x.txt").stat()
    assert list(json.loads(lines[1]).items()) == [
        ("path", f"file://{tmp_path}/a%20b%25é/day=1%202/x.txt"),
        ("size", stat.st_size),
        ("isDir", False),
        ("modificationTime", stat.st_mtime_ns // 1_000_000),
        ("blockReplication", 1),
        ("blockSize", 33554432),
        ("action", "add"),
    ]
    assert committed_files(str(folder)) == [str(folder / "day=1 2" / "x.txt")]


def test_every_tenth_has_all_before_it_and_old_ones_go(tmp_path: Path) -> None:
    log, names = Manifest(LocalStorage(), str(tmp_path)), []
    for number in range(34):
        names.append(put(tmp_path, f"{number}.txt"))
        log.add(names[-1:])
        assert as_spark_reads(tmp_path) == [f"file://{tmp_path}/{name}" for name in names]
        for path in (tmp_path / "_spark_metadata").iterdir():
            os.utime(path, (0, 0))
    kept = {int(name.partition(".")[0]) for name in log_of(tmp_path)}
    assert kept == {*range(19, 34)}


def test_what_is_there_is_not_added_again(tmp_path: Path) -> None:
    for _ in range(3):
        Manifest(LocalStorage(), str(tmp_path)).add([put(tmp_path, "x.txt")])
    assert len(as_spark_reads(tmp_path)) == 1


def test_each_of_many_writers_gets_in_once(tmp_path: Path) -> None:
    def write(writer: int) -> None:
        log = Manifest(LocalStorage(), str(tmp_path))
        for number in range(9):
            log.add([put(tmp_path, f"{writer}-{number}.txt")])

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(as_spark_reads(tmp_path))) == len(as_spark_reads(tmp_path)) == 36


def test_who_stood_still_while_others_compacted_gets_in_all_the_same(tmp_path: Path) -> None:
    others = Manifest(LocalStorage(), str(tmp_path))

    class Slow(LocalStorage):
        def create(self, path: str, content: bytes) -> bool:
            if not (tmp_path / "29.compact.txt").exists():
                for number in range(30):
                    others.add([put(tmp_path, f"{number}{'.compact' * (number == 29)}.txt")])
                for name in map(str, range(9)):
                    (tmp_path / "_spark_metadata" / name).unlink()
            return super().create(path, content)

    Manifest(Slow(), str(tmp_path)).add([put(tmp_path, "late.txt")])
    assert f"file://{tmp_path}/late.txt" in as_spark_reads(tmp_path)
    assert len(as_spark_reads(tmp_path)) == 31


def test_who_is_no_longer_to_write_does_not(tmp_path: Path) -> None:
    newer, older = (Manifest(LocalStorage(), str(tmp_path)) for _ in range(2))
    newer.add([put(tmp_path, "0.txt")])
    checks = count()

    def check() -> None:
        if next(checks):
            raise PermissionError
        newer.add([put(tmp_path, "1.txt")])  # Just after the look.

    with pytest.raises(PermissionError):
        older.add([put(tmp_path, "mine.txt")], check)
    assert len(as_spark_reads(tmp_path)) == 2


@pytest.mark.parametrize(
    "content",
    [b"", b"v2", b"v1\n[]", b'v1\n{"path', b"v1\n{}", b"v1\n" + b"[" * 100_000],
    ids=["empty", "of a later version", "a list", "cut", "without a path", "nested"],
)
def test_a_damaged_log_is_named_with_the_remedy(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "_spark_metadata").mkdir()
    (tmp_path / "_spark_metadata" / "0").write_bytes(content)
    for use in (
        Manifest(LocalStorage(), str(tmp_path)).files,
        lambda: committed_files(str(tmp_path)),
    ):
        with pytest.raises(ValueError, match=r"_spark_metadata/0 is damaged\. It lists .*restore"):
            use()


@pytest.mark.parametrize("names", [["9"], ["4.compact", "5"], ["1"], ["19.compact", "21"]])
def test_a_log_with_gaps_or_another_interval_is_not_written_to(names: Any, tmp_path: Path) -> None:
    (tmp_path / "_spark_metadata").mkdir()
    for name in names:
        (tmp_path / "_spark_metadata" / name).write_bytes(b"v1")
    with pytest.raises(ValueError, match="restore the removed files, or write to another"):
        Manifest(LocalStorage(), str(tmp_path)).add([put(tmp_path, "x.txt")])
