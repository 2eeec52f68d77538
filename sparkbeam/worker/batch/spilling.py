"""Rows that a task keeps in files for another one; see :mod:`sparkbeam.plan.spilled`."""

import contextlib
import uuid
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa

from sparkbeam.wire.rows import SCHEMA, RowBuffer, RowWriter
from sparkbeam.worker.task import task_numbers


class SpilledRows:
    """The files of an attempt at a task: one for each port that it writes rows of.

    A file has its name when all of the task is in it, so none is seen of an attempt that fails.

    Args:
        repeatable: two attempts put out the same, and their files have the same names.
    """

    def __init__(self, partition: int, *, repeatable: bool) -> None:
        self._attempt = uuid.uuid4().hex
        self._name = f"{partition:06}" if repeatable else f"{partition:06}-{self._attempt}"
        self._folders: dict[int, Path] = {}
        self._buffers: dict[int, RowBuffer] = {}
        self._files: dict[int, pa.RecordBatchStreamWriter] = {}
        self._open = contextlib.ExitStack()

    def rows(self, tag: int, folder: str) -> RowWriter:
        """Return the writer of the rows of a port to a file in a folder."""
        self._folders[tag] = Path(folder)
        return self._buffers.setdefault(tag, RowBuffer(partial(self._write, tag)))

    def _write(self, tag: int, batch: pa.RecordBatch) -> None:
        if tag not in self._files:
            file = self._open.enter_context(pa.OSFile(str(self._unfinished(tag)), "wb"))
            self._files[tag] = self._open.enter_context(pa.ipc.new_stream(file, SCHEMA))
        self._files[tag].write_batch(batch)

    def _unfinished(self, tag: int) -> Path:
        return self._folders[tag] / f"{self._attempt}-{tag}"

    def written(self) -> tuple[tuple[int, str], ...]:
        """Close the files; return the tag and the name of each."""
        for buffer in self._buffers.values():
            buffer.flush()
        self._open.close()
        found = tuple((tag, f"{tag}-{self._name}") for tag in sorted(self._files))
        for tag, name in found:
            self._unfinished(tag).replace(self._folders[tag] / name)
        return found

    def close(self) -> None:
        """Release the files of a task that has failed, or ended."""
        with contextlib.suppress(Exception):  # The disk may be full; the task has said so.
            self._open.close()


def spilled_batches(
    paths: tuple[str, ...], given: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task.

    Args:
        paths: those of all files of the port.
        given: the input from Spark: numbers of files.
    """
    for number in task_numbers(given):
        if number < len(paths):
            with pa.memory_map(paths[number]) as file, pa.ipc.open_stream(file) as stream:
                yield from stream


def write_batches(path: Path, batches: Iterable[pa.RecordBatch]) -> None:
    """Write a file of rows, which has its name once it is complete."""
    unfinished = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
    with pa.OSFile(str(unfinished), "wb") as file, pa.ipc.new_stream(file, SCHEMA) as stream:
        for batch in batches:
            stream.write_batch(batch)
    unfinished.replace(path)
