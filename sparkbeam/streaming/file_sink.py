"""Files of a folder, written by micro-batches, each once and as a whole.

A micro-batch is written aside, by Spark. What it has made is then noted, with the names that the
files are to have: from here on the micro-batch is decided, and one that runs again does not
write, but moves what is left to move. When all files are in the folder, the micro-batch is marked
as committed; see :mod:`sparkbeam.connectors.committed`.
"""

import json
import uuid
from collections.abc import Callable

from sparkbeam.connectors.committed import (
    data_files,
    file_name,
    hidden_folder,
    mark,
    mark_path,
    read_mark,
)
from sparkbeam.connectors.storage import Storage, absolute, storage

_MOVES = "moves"


class NotSeen(Exception):
    """This process does not see what Spark has written."""


class FileSink:
    """The files of one sink.

    Args:
        path: of the folder.
        writer: what tells the sink from all others that write into the folder.
        kept: what keeps the folder; None for what its path says.

    Raises:
        ValueError: neither Python nor Beam's filesystems know such paths.
    """

    def __init__(self, path: str, writer: str, kept: Storage | None = None) -> None:
        self._folder = absolute(path)
        self._kept = kept or storage(path)
        self._writer = writer
        hidden = hidden_folder(self._kept, self._folder)
        self._mark = mark_path(hidden, writer)
        self._work = f"{hidden}/{writer}"
        self._last: int | None = None

    def resume(self) -> None:
        """Ends what an earlier run has begun; called before the first micro-batch of a run.

        Raises:
            NotSeen: Spark's readers would not see the files.
            ValueError: what an earlier run has noted is damaged.
        """
        if self._kept.names(f"{self._folder}/_spark_metadata"):
            raise NotSeen(
                f"{self._folder} has a _spark_metadata of Spark's own streaming sink, so Spark "
                "reads nothing there that others have written. Write to another folder."
            )
        last = read_mark(self._kept, self._mark)
        if last is None:
            last = -1
            self._kept.write(self._mark, mark(last))
        batch_id, moves = self._noted()
        if batch_id > last:
            self._commit(batch_id, moves)
            last = batch_id
        self._kept.remove(self._work)
        self._last = last

    def deliver(self, batch_id: int, write: Callable[[str], None]) -> None:
        """Brings a micro-batch into the folder, unless it is there.

        Args:
            batch_id: its number.
            write: lets Spark write it into a new folder.

        Raises:
            NotSeen: this process does not see what Spark has written.
            OSError: files cannot be moved.
        """
        if self._last is None:
            self.resume()
        if self._last is not None and batch_id <= self._last:
            return
        self._last = None  # Until it is known again.
        attempt = f"{self._work}/{batch_id}-{uuid.uuid4().hex[:8]}"
        write(attempt)
        moves = self._moves(batch_id, attempt)
        self._kept.write(f"{self._work}/{_MOVES}", json.dumps([batch_id, moves]).encode())
        self._commit(batch_id, moves)
        self._kept.remove(self._work)
        self._last = batch_id

    def _noted(self) -> tuple[int, dict[str, str]]:
        """The micro-batch that an earlier run has begun to move, with the moves; -1 for none."""
        path = f"{self._work}/{_MOVES}"
        noted = self._kept.read(path)
        if noted is None:
            return -1, {}
        try:
            batch_id, moves = json.loads(noted)
            return int(batch_id), dict(moves)
        except (ValueError, TypeError):
            raise ValueError(
                f"{path} is damaged. It tells which files of the last micro-batch are still to be "
                f"moved to {self._folder}: restore it, or remove it, and there the files with the "
                "largest number of a micro-batch, which is then written anew."
            ) from None

    def _moves(self, batch_id: int, attempt: str) -> dict[str, str]:
        """Where the files of a micro-batch are to go, by their paths aside, both relative."""
        if "_SUCCESS" not in self._kept.names(attempt):
            raise NotSeen(
                f"Spark has written to {attempt}, but the driver's Python does not see that. "
                "Give path as a URL that Spark and Beam's filesystems both know, such as "
                "gs://, s3:// or hdfs://, or as file:// on a file system that all machines share."
            )
        moves = {}
        for number, name in enumerate(data_files(self._kept, attempt)):
            partition, slash, written = name.rpartition("/")
            target = file_name(self._writer, batch_id, number, written)
            moves[f"{attempt.rpartition('/')[2]}/{name}"] = f"{partition}{slash}{target}"
        return moves

    def _commit(self, batch_id: int, moves: dict[str, str]) -> None:
        self._kept.move(
            {
                f"{self._work}/{source}": f"{self._folder}/{target}"
                for source, target in moves.items()
            }
        )
        self._kept.write(self._mark, mark(batch_id))
