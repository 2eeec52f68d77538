"""Detection of full disks and damaged checkpoint files in Spark's errors."""

import re

from sparkbeam.upstream.spark import CHECKPOINT_FILE, DAMAGED

_OWN = re.compile(r"CheckpointFailed: (The checkpoint file [^\n]+)")
FULL = re.compile(r"No space left on device|Disk quota exceeded")
_PATH = re.compile(r"'(/[^'\n]+)'|(?:[a-z]+:)?(/[^\s'\":,()]+)")


def damage(text: str) -> str | None:
    """Return a short text with the file, the cause and the remedy.

    Returns:
        None for any other error.
    """
    own = _OWN.search(text)
    if own is not None:
        return own.group(1).strip()
    full = FULL.search(text)
    if full is not None:
        return _full(text, full)
    broken = DAMAGED.search(text)
    if broken is not None:
        return _broken(text, broken)
    return None


def _full(text: str, found: re.Match[str]) -> str:
    line = _line(text, found)
    path = _PATH.search(line)
    where = f": {path.group(1) or path.group(2)}" if path is not None else ""
    return (
        f"{found.group()}{where}. Free space there, in spark.local.dir and under "
        "--checkpoint_location, and start the program again: a streaming pipeline continues from "
        "the same checkpoint, and committed data is not lost."
    )


def _broken(text: str, found: re.Match[str]) -> str:
    file = CHECKPOINT_FILE.search(text, found.start()) or CHECKPOINT_FILE.search(text)
    what = f"The checkpoint file {file.group()}" if file is not None else "A file of the checkpoint"
    return (
        f"{what} cannot be read: {_line(text, found)[:300]} "
        "Restore the checkpoint from a backup, or start over with another --checkpoint_location."
    )


def _line(text: str, found: re.Match[str]) -> str:
    """Return the line of a match."""
    start = text.rfind("\n", 0, found.start()) + 1
    end = text.find("\n", found.end())
    return text[start : end if end >= 0 else None].strip()
