"""Commits of micro-batches to the sinks of a streaming query, each once as far as a sink allows.

The rows of a micro-batch leave the workers as cells. :class:`.Delivery` writes them, as in batch; a
committer decides whether and where to, so that a micro-batch counts once:

- **Files** (:class:`FolderCommitter`): Spark writes them aside. Their final names are noted, then
  they are moved, and the micro-batch is marked.
- **Delta, functions and writers** (:class:`NumberCommitter`) commit themselves, and recognize the
  number of a repeated micro-batch: Delta by a transaction id, those of the runner's packages, such
  as Kafka's transactions, together with the id of the sink (:class:`.TakesSinkId`).
- **Other data sources** (:class:`NoteCommitter`): once the write has ended, it is noted under the
  checkpoint. If the driver dies in between, the rows are written again; only an Iceberg table with
  a name recognizes its snapshot.
- **Complete results and the console** (:class:`CollectedCommitter`): likewise, with rows that were
  collected on the driver. A result is stored under the checkpoint before it is written.

In terms of Flink's Sink V2, :class:`.Delivery` is the writer. A committable is the list of noted
moves for files; for all other sinks it is the number of the micro-batch.
"""

import hashlib
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

from sparkbeam.connectors import console
from sparkbeam.connectors.commits import Commit
from sparkbeam.connectors.delivery import Delivery
from sparkbeam.connectors.write_targets import WriteTarget
from sparkbeam.plan.spark_io import WriteSpec
from sparkbeam.streaming.checkpoint_files import damaged
from sparkbeam.streaming.complete_results import CompleteResult
from sparkbeam.streaming.folder_commits import FolderCommits
from sparkbeam.streaming.generation import OwnFiles

_NOTES = "written"
_MARKED = {"mapreduce.fileoutputcommitter.marksuccessfuljobs": "true"}
"""Option for a file that shows whether Python sees the files that Spark has written."""


class Committer(ABC):
    """Commits of the micro-batches of one sink.

    :class:`.SparkSinks` calls :meth:`resume` before the first micro-batch of a start, and then
    :meth:`commit` for each micro-batch that has rows for the sink, in the order of their numbers.
    It does so on the driver, for one sink after the other, and checks for a newer driver before
    each commit.

    Before a commit, Spark has stored the offsets of the micro-batch, and all earlier micro-batches
    are committed by Spark and by all sinks. After it, the sink has the rows. Spark commits the
    micro-batch only after all sinks. If the driver dies before that, the next start calls
    :meth:`commit` with the same number and the same rows, in any order. A commit that had ended
    then has no effect, as far as the sink can tell; one that had begun is completed or repeated.
    """

    def __init__(self, delivery: Delivery, files: OwnFiles, target: WriteTarget) -> None:
        self._delivery = delivery
        self._files = files
        self._target = target

    def resume(self) -> None:
        """Complete the commit that an earlier start has begun, if that needs no rows."""
        return None

    @abstractmethod
    def commit(self, values: Any, batch_id: int) -> None:
        """Write a micro-batch, unless that has been done.

        Args:
            values: see :meth:`.Delivery.__call__`.
            batch_id: the number of the micro-batch.

        Raises:
            WorkerFailure: the sink failed; see :mod:`sparkbeam.wire.failure`.
            CheckpointTaken: there is a newer driver.
        """


class FolderCommitter(Committer):
    """Commits of files, to a folder or to the folder of a table."""

    def resume(self) -> None:
        delivery = self._delivery
        with delivery.reporting():
            self._commits = FolderCommits(
                self._target.folder,
                f"{delivery.run}-{_short_hash(delivery.name, 8)}",
                generation=self._files.number,
                check=self._files.check,
                has_manifest=delivery.spec.has_manifest,
            )
            self._commits.resume()

    def commit(self, values: Any, batch_id: int) -> None:
        def write(folder: str) -> None:
            self._delivery(values, batch_id, self._target.aside(folder).with_options(**_MARKED))

        with self._delivery.reporting():
            self._commits.commit(batch_id, write)
            if self._target.found is not None:
                self._target.found.added(values.sparkSession)


class NumberCommitter(Committer):
    """Commits of a sink that gets the number of the micro-batch with its rows."""

    def commit(self, values: Any, batch_id: int) -> None:
        self._delivery(values, batch_id, self._numbered_target(batch_id))

    def _numbered_target(self, batch_id: int) -> WriteTarget:
        commit = Commit(f"{self._delivery.run}/{self._delivery.name}", batch_id)
        return replace(self._target, commit=commit)


class NoteCommitter(NumberCommitter):
    """Commits that are noted under the checkpoint."""

    def __init__(self, delivery: Delivery, files: OwnFiles, target: WriteTarget) -> None:
        super().__init__(delivery, files, target)
        self._note = _short_hash(delivery.name, 16)
        self._last: int | None = None

    def commit(self, values: Any, batch_id: int) -> None:
        if self._last is None:
            self._last = self._noted(batch_id)
        if self._last < batch_id:
            self._write(values, batch_id, begun=self._last >= 0)
            # Each generation has its own file, so that an older one cannot set the number back.
            note = f"{_NOTES}/{self._note}.{self._files.number}"
            self._files.write(note, str(batch_id).encode())
            self._last = batch_id

    def _write(self, values: Any, batch_id: int, *, begun: bool) -> None:
        """Write a micro-batch; `begun` says that an earlier one has been written."""
        super().commit(values, batch_id)

    def _noted(self, batch_id: int) -> int:
        """Return the last micro-batch that has been written in any generation; -1 for none."""
        found: dict[str, int] = {}
        for file in self._files.names(_NOTES):
            is_own = file.partition(".")[0] == self._note
            content = self._files.read(f"{_NOTES}/{file}") if is_own else None
            if content is None:
                continue
            if not content.isdigit():
                label = self._delivery.label
                raise damaged(
                    self._files.path(f"{_NOTES}/{file}"),
                    f"It holds the number of the last micro-batch that '{label}' has written. "
                    f"If that is {batch_id}, write this number into the file; otherwise remove it.",
                )
            found[file] = int(content)
        last = max(found.values(), default=-1)
        for file in (file for file, noted in found.items() if noted < last):
            self._files.remove(f"{_NOTES}/{file}")
        return last


class CollectedCommitter(NoteCommitter):
    """Commits of rows that are collected on the driver: complete results, and the console."""

    def __init__(self, delivery: Delivery, files: OwnFiles, target: WriteTarget) -> None:
        super().__init__(delivery, files, target)
        spec = delivery.spec
        self._result = CompleteResult(files, delivery.name, spec.key) if spec.is_complete else None

    def _write(self, values: Any, batch_id: int, *, begun: bool) -> None:
        delivery = self._delivery
        with delivery.reporting():
            table = delivery.table(values)
        if self._result is not None:
            table = self._result.joined(table, batch_id, begun=begun)
        with delivery.reporting():
            # Each chunk would be a partition.
            rows = values.sparkSession.createDataFrame(table.combine_chunks(), delivery.schema)
            delivery.give(rows, batch_id, self._numbered_target(batch_id))


def committer_for(delivery: Delivery, files: OwnFiles, session: Any) -> Committer:
    """Return the committer of a sink; create a missing table in append mode.

    Raises:
        WorkerFailure: the table or the folder cannot be used.
    """
    spec, target = delivery.spec, WriteTarget(delivery.spec)
    if spec.table and spec.mode == "append":
        with delivery.reporting():
            target = target.in_table(delivery.catalog_table(session))
    if spec.writer or spec.function:
        kind: type[Committer] = NumberCommitter
    elif target.folder:
        kind = FolderCommitter
    elif is_collected(spec):
        kind = CollectedCommitter
    else:
        kind = NumberCommitter if target.spec.source == "delta" else NoteCommitter
    return kind(delivery, files, target)


def is_collected(spec: WriteSpec) -> bool:
    """Return whether rows are collected on the driver and written from there."""
    return spec.is_complete or spec.source == console.FORMAT


def _short_hash(text: str, digits: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:digits]
