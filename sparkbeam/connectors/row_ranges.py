"""Which rows of Parquet files each task reads."""

from collections.abc import Iterator
from dataclasses import replace

from sparkbeam.wire.parquet_splits import FilePart

_MOST_TASKS = 2
"""So many of them a row group has at most on average."""

_LEAST = 10
"""Where a task ends, a row group is divided if the end would else move by one part of so many."""


def divided(parts: list[tuple[FilePart, int]], tasks: int) -> tuple[tuple[FilePart, ...], ...]:
    """Neighbouring parts together, as what is near in a file is often near in time.

    Args:
        parts: a row group each, with its bytes.
        tasks: at most so many of them have a share.
    """
    tasks = min(tasks, _MOST_TASKS * len(parts))
    whole = sum(size for _, size in parts)
    shares: list[list[FilePart]] = [[]]
    before, number = 0, 1
    for part, size in parts:
        start = 0
        while number < tasks and number * whole < tasks * (before + size):
            end = _end(part, size * tasks, number * whole - before * tasks, whole)
            if end > start:
                shares[-1].append(replace(part, start=start, stop=end))
            shares.append([])
            start, number = end, number + 1
        if start < part.stop:
            shares[-1].append(replace(part, start=start))
        before += size
    return tuple(tuple(_joined(share)) for share in shares if share)


def _end(part: FilePart, size: int, at: int, share: int) -> int:
    """The row of a row group before which a task ends.

    The next one decodes what is before that too, so most row groups stay in one piece.

    Args:
        part: the row group.
        size: of it.
        at: how much of it would be the task's.
        share: how much is a task's.
    """
    row = part.stop * at // size
    if min(row, part.stop - row) >= part.rows and _LEAST * min(at, size - at) >= share:
        return row
    return part.stop if 2 * at > size else 0


def _joined(parts: list[FilePart]) -> Iterator[FilePart]:
    """Parts of the same file as one."""
    pending: FilePart | None = None
    for part in parts:
        if pending is not None and pending.path == part.path:
            pending = replace(
                pending,
                row_groups=(*pending.row_groups, *part.row_groups),
                stop=pending.stop + part.stop,
                rows=min(pending.rows, part.rows),
            )
            continue
        if pending is not None:
            yield pending
        pending = part
    if pending is not None:
        yield pending
