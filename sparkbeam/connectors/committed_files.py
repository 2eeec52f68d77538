"""Which files of a folder are committed: those of whole micro-batches.

The name of a file of a streaming sink tells its writer and its micro-batch,
``part-<writer>-<micro-batch>-<number>``, and for each writer there is a small file that tells its
last committed micro-batch. Its files are all in the folder before that is told. So the list of
committed files is the folder's own, without what is younger. Each start of the writer has a file of
its own, ``<writer>.<generation>``, so that nothing goes back where an older start still writes its.
Where a folder has a log for Spark's own readers (:mod:`.manifest`), that is the list.
"""

import json
import re
from typing import NamedTuple

from sparkbeam.common.untrusted_json import loaded
from sparkbeam.connectors.manifest import Manifest
from sparkbeam.connectors.storage import Storage, absolute, storage

_COMMITTED = "committed"
_NAME = re.compile(r"part-([0-9a-f]{12}-[0-9a-f]{8})-([0-9]{9,})-[0-9]{5,}")
_HIDDEN = re.compile(r"\.|_[^=]*$")  # A partition by a column may begin with _.
_MARK = re.compile(r"([^._][^.]*)(?:\.([0-9]{1,18}))?")
_LOOKS = 20
_SUFFIX = re.compile(r"[-.]c[0-9]{3,}((?:\.[^.]+)+)$")


def committed_files(path: str) -> list[str]:
    """The files of a folder without those of a micro-batch that is just being moved in.

    What was committed when it was called is there as a whole; files that no streaming
    :class:`WriteToSpark` has written are there, too, unless the folder has a ``_spark_metadata``,
    whose files these are then. Hidden files are not.

    Args:
        path: the folder that is written to, as Spark is given it; this process has to see it.

    Returns:
        The paths of the files, in order; none if there is no such folder.

    Raises:
        ValueError: neither Python nor Beam's filesystems know such paths, or the list is damaged.
    """
    folder, kept = absolute(path), storage(path)
    log = Manifest(kept, folder)
    return sorted(log.files()) if log.is_there else marked_files(kept, folder)


def listed_files(path: str) -> list[str] | None:
    """The committed files of what Spark is to read, where only a list tells them.

    Args:
        path: a folder, or one of a partition below it.

    Returns:
        None where Spark finds them itself: nobody keeps a list, or it is a log that Spark follows.

    Raises:
        ValueError: the list is damaged.
    """
    root = folder = absolute(path)
    while "=" in root.rpartition("/")[2]:
        root = root.rpartition("/")[0]
    try:
        kept = storage(path)
        is_told = any(kept.names(f"{place}/{_COMMITTED}") for place in kept.hidden(root))
    except Exception:  # What Spark sees this process need not.
        return None
    if not is_told or Manifest(kept, root).is_there:
        return None
    return [file for file in marked_files(kept, root) if file.startswith(f"{folder}/")]


def marked_files(kept: Storage, folder: str) -> list[str]:
    """The files of a folder by the marks of those who write to it."""
    before = _marks(kept, folder)
    names = data_files(kept, folder)
    # Whoever wrote its first mark while the folder was listed had committed nothing before.
    new = _marks(kept, folder).keys() - before.keys()
    return [
        f"{folder}/{name}"
        for name in names
        if (found := origin(name)) is None
        or (found[0] not in new and found[1] <= before.get(found[0], found[1]))
    ]


def data_files(kept: Storage, folder: str) -> list[str]:
    """The paths of the files in a folder that are no hidden ones, relative to it."""
    return [
        name
        for name in kept.names(folder)
        if not any(_HIDDEN.match(part) for part in name.split("/"))
    ]


def file_name(writer: str, batch_id: int, number: int, written: str) -> str:
    """The name of a file of a micro-batch.

    Args:
        writer: what tells the sink from all others: 12 and 8 hexadecimal digits.
        batch_id: of the micro-batch.
        number: of the file in it.
        written: the name that Spark has given the file; its suffixes stay.
    """
    suffix = _SUFFIX.search(written)
    ending = suffix.group(1) if suffix else written[written.find(".") :] if "." in written else ""
    return f"part-{writer}-{batch_id:09d}-{number:05d}{ending}"


def hidden_folder(kept: Storage, folder: str) -> str:
    """The hidden folder for what a sink keeps of a folder: the one that is there, or is to be."""
    places = kept.hidden(folder)
    return next((place for place in places if kept.names(f"{place}/{_COMMITTED}")), places[0])


def mark_path(hidden: str, writer: str, generation: int = 0) -> str:
    """Path at which a start of a writer tells its last committed micro-batch."""
    return f"{hidden}/{_COMMITTED}/{writer}{f'.{generation}' if generation else ''}"


def mark_paths(kept: Storage, hidden: str, writer: str) -> dict[int, str]:
    """Paths at which all starts of a writer have told it, by their generations."""
    found = map(_MARK.fullmatch, kept.names(f"{hidden}/{_COMMITTED}"))
    generations = [int(mark[2] or 0) for mark in found if mark and mark[1] == writer]
    return {number: mark_path(hidden, writer, number) for number in generations}


class Mark(NamedTuple):
    """The last committed micro-batch, as a start of a writer tells it.

    Attributes:
        last: the last committed micro-batch; -1 before there is one.
        settled: all that older starts have noted counts, or is of no effect for ever.
    """

    last: int
    settled: bool = False

    def content(self) -> bytes:
        """It as a file has it."""
        told = {"last": self.last, "settled": True} if self.settled else {"last": self.last}
        return json.dumps(told).encode()


def read_mark(kept: Storage, path: str) -> Mark | None:
    """Read the mark at a path; None for nothing.

    Raises:
        ValueError: the file is damaged.
    """
    content = kept.read(path)
    try:
        if content is None:
            return None
        told = loaded(content)
        return Mark(int(told["last"]), bool(told.get("settled")))
    except (ValueError, TypeError, KeyError):
        raise ValueError(
            f"{path} is damaged. It tells the last micro-batch whose files are all in the folder: "
            'restore it, or write {"last": N} into it, with N from the names of the files, '
            f"part-{path.rpartition('/')[2].partition('.')[0]}-N-…."
        ) from None


def _marks(kept: Storage, folder: str) -> dict[str, int]:
    """The last committed micro-batches by their writers."""
    for _ in range(_LOOKS):
        found: dict[str, int] = {}
        gone = False
        for hidden in kept.hidden(folder):
            for name in kept.names(f"{hidden}/{_COMMITTED}"):
                told = _MARK.fullmatch(name)
                if told is None:
                    continue
                mark = read_mark(kept, f"{hidden}/{_COMMITTED}/{name}")
                gone |= mark is None
                found[told[1]] = max(found.get(told[1], -1), -1 if mark is None else mark.last)
        if not gone:
            break  # Else a newer start has told it before it took the file of an older one away.
    return found


def origin(name: str) -> tuple[str, int] | None:
    """The writer and the micro-batch of a file; None for one that no streaming sink has written."""
    matched = _NAME.match(name.rpartition("/")[2])
    return (matched.group(1), int(matched.group(2))) if matched else None
