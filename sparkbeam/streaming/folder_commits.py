"""Exactly-once commits of micro-batches to a folder of files.

Spark writes a micro-batch to a folder aside. The result is then noted with the final names of its
files: from here on the micro-batch is decided, and a repeated one does not write but completes the
moves. When all files are in the folder, the micro-batch is marked as committed; see
:mod:`sparkbeam.connectors.committed_files`. Before that the files are added to the log for Spark's
readers, if there is one (:mod:`sparkbeam.connectors.manifest`).

Each generation of the driver (:mod:`.generation`) writes aside, notes and marks under its own
number. It notes before it checks for a newer one, and only then moves; a newer one begins before it
looks for notes. So of two drivers at least one sees the other: either the older one ends before it
moves anything, or the newer one completes the same moves.
"""

import json
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping

from sparkbeam.common.local_files import nothing
from sparkbeam.common.untrusted_json import loaded
from sparkbeam.connectors.committed_files import (
    Mark,
    data_files,
    file_name,
    hidden_folder,
    mark_path,
    mark_paths,
    marked_files,
    origin,
    read_mark,
)
from sparkbeam.connectors.manifest import LOG, Manifest
from sparkbeam.connectors.storage import Storage, absolute, storage
from sparkbeam.streaming.generation import unless_taken

_MOVES = "moves"
_NOTE = re.compile(rf"(?:([0-9]{{1,18}})/)?{_MOVES}")

Moves = Mapping[str, str]
"""Target paths by source paths aside; both are relative."""


class NotSeen(Exception):
    """This process does not see the files that Spark has written."""


class NotTrusted(Exception):
    """Another user may have written data that the sink would act upon."""


class FolderCommits:
    """Commits of the files of one sink to a folder.

    Args:
        sink_id: identifies the sink among all that write to the folder.
        kept: the storage of the folder; None to derive it from the path.
        check: raises an error if there is a newer generation.
        has_manifest: Spark's readers use a log of the files.

    Raises:
        ValueError: neither Python nor Beam's filesystems support the path.
    """

    def __init__(
        self,
        path: str,
        sink_id: str,
        kept: Storage | None = None,
        generation: int = 0,
        check: Callable[[], None] = nothing,
        *,
        has_manifest: bool = False,
    ) -> None:
        self._folder = absolute(path)
        self._kept = kept or storage(path)
        self._sink_id = sink_id
        self._generation = generation
        self._check = check
        self._hidden = hidden_folder(self._kept, self._folder)
        self._mark = mark_path(self._hidden, sink_id, generation)
        self._works = f"{self._hidden}/{sink_id}"
        self._work = self._work_of(generation)
        self._manifest = Manifest(self._kept, self._folder) if has_manifest else None
        self._last: int | None = None

    def resume(self) -> None:
        """Complete the moves of an earlier run; called before the first micro-batch of a run.

        Raises:
            NotSeen: Spark's readers would not see the files.
            NotTrusted: another user may have written the notes.
            ValueError: the note of an earlier run is damaged.
        """
        if self._manifest is None and Manifest(self._kept, self._folder).is_there:
            raise NotSeen(
                f"{self._folder} has a _spark_metadata, the log of all files that Spark reads "
                "there. Use layout='manifest' in WriteToSpark, or write to another folder."
            )
        self._check_owners()
        self._check()
        paths = mark_paths(self._kept, self._hidden, self._sink_id)
        marks = {number: read_mark(self._kept, path) for number, path in paths.items()}
        last = max((mark.last for mark in marks.values() if mark is not None), default=-1)
        settled = max((n for n, mark in marks.items() if mark and mark.settled), default=0)
        if settled < self._generation or not marks:
            # From here on readers ignore later files.
            self._kept.write(self._mark, Mark(last).content())
        self._check_owners()
        if self._manifest is not None:
            self._check_links(self._folder, [f"{LOG}/0"])
            if not self._manifest.is_there:
                # Before any files that readers must not see yet.
                start = len(self._folder) + 1
                there = [file[start:] for file in marked_files(self._kept, self._folder)]
                self._manifest.add(there, self._check)
        batch_id, work, moves = self._noted(settled)
        if batch_id > last:
            self._complete(batch_id, work, moves)
            last = batch_id
        else:
            self._write_mark(last)
        for number, path in paths.items():
            if number < self._generation:
                self._kept.remove(path)
        self._clear()
        self._last = last

    def commit(self, batch_id: int, write: Callable[[str], None]) -> None:
        """Move a micro-batch into the folder, unless it is there.

        Args:
            write: makes Spark write it into a new folder.

        Raises:
            NotSeen: this process does not see the files that Spark has written.
            OSError: files cannot be moved.
        """
        if self._last is None:
            self.resume()
        if self._last is not None and batch_id <= self._last:
            return
        self._last = None  # Unknown until the commit.
        attempt = f"{batch_id}-{uuid.uuid4().hex[:8]}"
        self._check()
        with unless_taken(self._check):  # A newer generation removes the files of older ones.
            write(f"{self._work}/{attempt}")
            moves = self._moves(batch_id, attempt)
        self._check()
        self._kept.write(f"{self._work}/{_MOVES}", json.dumps([batch_id, moves]).encode())
        self._complete(batch_id, self._work, moves)
        self._kept.remove(self._work)
        self._last = batch_id

    def _check_owners(self) -> None:
        """Reject folders in which another user may have noted moves or put files."""
        for folder in (self._hidden, self._mark.rpartition("/")[0], self._works):
            reason = self._kept.untrusted_reason(folder)
            if reason is not None:
                raise NotTrusted(
                    f"The folder {folder}, which controls the files of {self._folder}, cannot be "
                    f"trusted: {reason}. Inspect its content; then remove it, or make it private "
                    "with chown and chmod go-w, or write to another folder."
                )

    def _noted(self, settled: int) -> tuple[int, str, Moves]:
        """Return the last noted micro-batch, its folder and its moves; -1 for none.

        Notes that an older generation wrote after a newer one had looked had no effect.

        Args:
            settled: the last generation that has looked for notes.
        """
        found = [(*self._note(number), number) for number in self._notes() if number >= settled]
        batch_id, moves, number = max(
            found, key=lambda note: (note[0], note[2]), default=(-1, {}, 0)
        )
        return batch_id, self._work_of(number), moves

    def _notes(self) -> Iterator[int]:
        """Yield the generations that have left a note."""
        for name in self._kept.names(self._works):
            note = _NOTE.fullmatch(name)
            if note is not None:
                yield int(note[1] or 0)

    def _note(self, generation: int) -> tuple[int, Moves]:
        path = f"{self._work_of(generation)}/{_MOVES}"
        noted = self._kept.read(path)
        if noted is None:
            return -1, {}
        try:
            batch_id, moves = loaded(noted, list)
            batch_id, moves = int(batch_id), dict(moves)
        except (ValueError, TypeError):
            raise ValueError(
                f"{path} is damaged. It records files of the last micro-batch that must still be "
                f"moved to {self._folder}: restore it, or delete it together with the newest "
                "micro-batch's files, which are then rewritten."
            ) from None
        for source, target in moves.items():
            if not self._is_own(batch_id, source, target):
                raise NotTrusted(
                    f"{path} requests a move of {source!r} to {target!r}, which no sink makes: "
                    f"another user has written it. Check who can write there, remove {path}, and "
                    "start again."
                )
        return batch_id, moves

    def _is_own(self, batch_id: int, source: object, target: object) -> bool:
        """Return whether a move belongs to this sink, from aside to below the folder."""
        if not (_is_below(source) and _is_below(target)):
            return False
        return re.match(rf"{batch_id}-[0-9a-f]{{8}}/", str(source)) is not None and origin(
            str(target)
        ) == (self._sink_id, batch_id)

    def _moves(self, batch_id: int, attempt: str) -> Moves:
        """Return the moves of a micro-batch."""
        folder = f"{self._work}/{attempt}"
        if "_SUCCESS" not in self._kept.names(folder):
            raise NotSeen(
                f"Spark has written to {folder}, but the driver's Python does not see it. "
                "Set path to a URL that both Spark and Beam's filesystems support, such as "
                "gs://, s3:// or hdfs://, or to file:// on a file system that all machines share."
            )
        moves = {}
        for number, name in enumerate(data_files(self._kept, folder)):
            partition, slash, written = name.rpartition("/")
            target = file_name(self._sink_id, batch_id, number, written)
            moves[f"{attempt}/{name}"] = f"{partition}{slash}{target}"
        return moves

    def _complete(self, batch_id: int, work: str, moves: Moves) -> None:
        """Make the noted moves, and mark the micro-batch."""
        self._check_links(work, moves.keys())
        self._check_links(self._folder, moves.values())
        self._check()
        self._kept.move(
            {f"{work}/{source}": f"{self._folder}/{target}" for source, target in moves.items()}
        )
        if self._manifest is not None:
            self._manifest.add(moves.values(), self._check)
        self._write_mark(batch_id)

    def _check_links(self, folder: str, names: Iterable[str]) -> None:
        link = self._kept.escaping(folder, names)
        if link is not None:
            raise NotTrusted(
                f"A symbolic link leads {folder}/{link} out of {folder}. Replace the link "
                "with a folder, or write to another folder."
            )

    def _write_mark(self, last: int) -> None:
        """Mark a micro-batch as completely in the folder."""
        self._check()
        self._kept.write(self._mark, Mark(last, settled=self._generation > 0).content())

    def _work_of(self, generation: int) -> str:
        """Return the folder aside of a generation."""
        return f"{self._works}/{generation}" if generation else self._works

    def _clear(self) -> None:
        """Remove the folders aside of this and older generations."""
        if not self._generation:
            self._kept.remove(self._works)
            return
        for name in {name.partition("/")[0] for name in self._kept.names(self._works)}:
            if not (name.isdecimal() and int(name) > self._generation):
                self._kept.remove(f"{self._works}/{name}")


def _is_below(path: object) -> bool:
    """Return whether a path is relative and never goes up."""
    return isinstance(path, str) and not {"", ".", ".."} & set(path.split("/")) and "\0" not in path
