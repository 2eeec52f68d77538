"""Rows that a task keeps in files."""

from pathlib import Path
from typing import Any

import pyarrow as pa

from sparkbeam.worker.batch.spilling import SpilledRows, spilled_batches


def attempt(folder: Path, *values: bytes, repeatable: bool = False, partition: int = 3) -> Any:
    """An attempt at a task that has written some rows of the port 7."""
    kept = SpilledRows(partition, repeatable=repeatable)
    rows = kept.rows(7, str(folder))
    for number, value in enumerate(values):
        rows.append(7, None, number, value)
    return kept


def given(*numbers: int) -> list[pa.RecordBatch]:
    return [pa.record_batch({"id": [number]}) for number in numbers]


def read(paths: tuple[str, ...], *numbers: int) -> list[bytes]:
    return [
        value
        for batch in spilled_batches(paths, given(*numbers))
        for value in batch.column("value").to_pylist()
    ]


def test_rows_come_back_in_their_order(tmp_path: Path) -> None:
    values = [bytes([n]) * (1 << 20) for n in range(9)]
    ((tag, name),) = attempt(tmp_path, *values).written()
    assert tag == 7
    assert read((str(tmp_path / name),), 0) == values


def test_each_task_reads_its_own_file(tmp_path: Path) -> None:
    names = [name for text in (b"a", b"b") for _, name in attempt(tmp_path, text).written()]
    assert read(tuple(str(tmp_path / name) for name in names), 1) == [b"b"]


def test_without_files_there_are_no_rows() -> None:
    assert read((), 0) == []


def test_a_port_without_rows_has_no_file(tmp_path: Path) -> None:
    assert attempt(tmp_path).written() == ()
    assert [*tmp_path.iterdir()] == []


def test_an_attempt_that_fails_leaves_none_under_a_name_that_is_told(tmp_path: Path) -> None:
    failed = attempt(tmp_path, b"x" * (5 << 20), repeatable=True)
    failed.close()
    ((_, name),) = attempt(tmp_path, b"y", repeatable=True).written()
    assert read((str(tmp_path / name),), 0) == [b"y"]


def test_two_attempts_have_files_of_their_own(tmp_path: Path) -> None:
    (first,), (second,) = (attempt(tmp_path, text).written() for text in (b"x", b"y"))
    assert first != second
    assert read((str(tmp_path / first[1]),), 0) == [b"x"]


def test_attempts_that_repeat_each_other_say_the_same(tmp_path: Path) -> None:
    first, second = (attempt(tmp_path, b"x", repeatable=True).written() for _ in range(2))
    assert first == second


def test_the_names_are_in_the_order_of_the_tasks(tmp_path: Path) -> None:
    written = [attempt(tmp_path, b"x", partition=n).written() for n in (9, 10, 100)]
    names = [name for ((_, name),) in written]
    assert names == sorted(names)
