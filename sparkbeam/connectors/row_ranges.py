"""Division of the rows of Parquet files among tasks."""

from collections.abc import Iterator
from dataclasses import replace

from sparkbeam.wire.parquet_splits import FilePart

_MOST_TASKS = 2
"""Maximum average number of tasks per row group."""

_LEAST = 10
"""A row group is split only if a task's share would otherwise change by one part in this many."""


def divided(parts: list[tuple[FilePart, int]], tasks: int) -> tuple[tuple[FilePart, ...], ...]:
    """Divide files among tasks by contiguous shares, as adjacent rows are often close in time.

    Args:
        parts: one per row group, with its bytes.
        tasks: the maximum number of shares.
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
    """Return the row of a row group at which a task ends.

    The next task decodes the rows before it as well, so most row groups stay whole.

    Args:
        part: the row group.
        size: of the row group.
        at: the part of this size that would belong to the task.
        share: the size of a task's share.
    """
    row = part.stop * at // size
    if min(row, part.stop - row) >= part.rows and _LEAST * min(at, size - at) >= share:
        return row
    return part.stop if 2 * at > size else 0


def _joined(parts: list[FilePart]) -> Iterator[FilePart]:
    """Merge parts of the same file."""
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
