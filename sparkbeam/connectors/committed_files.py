"""Committed files of a folder: those of whole micro-batches.

The file names of a streaming sink contain its id and the micro-batch,
``part-<sink>-<micro-batch>-<number>``, and each sink has a small file with its last committed
micro-batch, written once all its files are in the folder. So the committed files are those in the
folder without later ones. Each start of a sink has its own file, ``<sink>.<generation>``, so
that an older start cannot set the number back. If a folder has a log for Spark's own readers
(:mod:`.manifest`), that is the list.
"""

import json
import re
from typing import NamedTuple

from sparkbeam.common.untrusted_json import loaded
from sparkbeam.connectors.manifest import Manifest
from sparkbeam.connectors.storage import Storage, absolute, storage

_COMMITTED = "committed"
_NAME = re.compile(r"part-([0-9a-f]{12}-[0-9a-f]{8})-([0-9]{9,})-[0-9]{5,}")
_HIDDEN = re.compile(r"\.|_[^=]*$")  # A column of a partition folder may begin with _.
_MARK = re.compile(r"([^._][^.]*)(?:\.([0-9]{1,18}))?")
_LOOKS = 20
_SUFFIX = re.compile(r"[-.]c[0-9]{3,}((?:\.[^.]+)+)$")


def committed_files(path: str) -> list[str]:
    """Return the files of a folder without those of a micro-batch that is being committed.

    Micro-batches committed before the call are complete; files that no streaming
    :class:`WriteToSpark` has written are included, unless the folder has a ``_spark_metadata``,
    whose files are returned then. Hidden files are excluded.

    Args:
        path: the folder, as given to Spark; visible to this process.

    Returns:
        The sorted paths of the files; none if there is no such folder.

    Raises:
        ValueError: neither Python nor Beam's filesystems support the path, or the list is damaged.
    """
    folder, kept = absolute(path), storage(path)
    log = Manifest(kept, folder)
    return sorted(log.files()) if log.is_there else marked_files(kept, folder)


def listed_files(path: str) -> list[str] | None:
    """Return the committed files of a path that Spark reads, if only a list identifies them.

    Args:
        path: a folder, or one of a partition below it.

    Returns:
        None if Spark finds them itself: there is no list, or it is a log that Spark follows.

    Raises:
        ValueError: the list is damaged.
    """
    root = folder = absolute(path)
    while "=" in root.rpartition("/")[2]:
        root = root.rpartition("/")[0]
    try:
        kept = storage(path)
        is_told = any(kept.names(f"{place}/{_COMMITTED}") for place in kept.hidden(root))
    except Exception:  # The path may only be visible to Spark.
        return None
    if not is_told or Manifest(kept, root).is_there:
        return None
    return [file for file in marked_files(kept, root) if file.startswith(f"{folder}/")]


def marked_files(kept: Storage, folder: str) -> list[str]:
    """Return the committed files of a folder by the marks of its sinks."""
    before = _marks(kept, folder)
    names = data_files(kept, folder)
    # A sink whose first mark appeared during the listing had committed nothing before.
    new = _marks(kept, folder).keys() - before.keys()
    return [
        f"{folder}/{name}"
        for name in names
        if (found := origin(name)) is None
        or (found[0] not in new and found[1] <= before.get(found[0], found[1]))
    ]


def data_files(kept: Storage, folder: str) -> list[str]:
    """Return the relative paths of the files in a folder that are not hidden."""
    return [
        name
        for name in kept.names(folder)
        if not any(_HIDDEN.match(part) for part in name.split("/"))
    ]


def file_name(sink_id: str, batch_id: int, number: int, written: str) -> str:
    """Return the name of a file of a micro-batch.

    Args:
        sink_id: of the sink: 12 and 8 hexadecimal digits.
        batch_id: of the micro-batch.
        written: the name given by Spark, whose suffixes are kept.
    """
    suffix = _SUFFIX.search(written)
    ending = suffix.group(1) if suffix else written[written.find(".") :] if "." in written else ""
    return f"part-{sink_id}-{batch_id:09d}-{number:05d}{ending}"


def hidden_folder(kept: Storage, folder: str) -> str:
    """Return the hidden folder for a sink's metadata: the existing one, or the one to create."""
    places = kept.hidden(folder)
    return next((place for place in places if kept.names(f"{place}/{_COMMITTED}")), places[0])


def mark_path(hidden: str, sink_id: str, generation: int = 0) -> str:
    """Return the path of the mark of a start of a sink."""
    return f"{hidden}/{_COMMITTED}/{sink_id}{f'.{generation}' if generation else ''}"


def mark_paths(kept: Storage, hidden: str, sink_id: str) -> dict[int, str]:
    """Return the paths of the marks of all starts of a sink, by generation."""
    found = map(_MARK.fullmatch, kept.names(f"{hidden}/{_COMMITTED}"))
    generations = [int(mark[2] or 0) for mark in found if mark and mark[1] == sink_id]
    return {number: mark_path(hidden, sink_id, number) for number in generations}


class Mark(NamedTuple):
    """Last committed micro-batch of a start of a sink.

    Attributes:
        last: the last committed micro-batch; -1 before the first.
        settled: all notes of older starts have been applied or are void.
    """

    last: int
    settled: bool = False

    def content(self) -> bytes:
        """Serialize for a file."""
        told = {"last": self.last, "settled": True} if self.settled else {"last": self.last}
        return json.dumps(told).encode()


def read_mark(kept: Storage, path: str) -> Mark | None:
    """Read the mark at a path, or return None.

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
            f"{path} is damaged. It records the last micro-batch with all of its files in the "
            'folder: restore it, or write {"last": N} to it, with N from the file names, '
            f"part-{path.rpartition('/')[2].partition('.')[0]}-N-…."
        ) from None


def _marks(kept: Storage, folder: str) -> dict[str, int]:
    """Return the last committed micro-batches by the id of the sink."""
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
            break  # Otherwise a newer start has written its mark and then removed an older one's.
    return found


def origin(name: str) -> tuple[str, int] | None:
    """Return sink id and micro-batch of a file; None if no streaming sink has written it."""
    matched = _NAME.match(name.rpartition("/")[2])
    return (matched.group(1), int(matched.group(2))) if matched else None
