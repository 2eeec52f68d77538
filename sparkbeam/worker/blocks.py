"""Blocks: many values that share timestamp, windows and pane, processed in one call.

Beam's operations take one element at a time, and for a ``Map`` of a few
instructions that call is nearly all of its cost. Most elements share
their windowing with their neighbours, or all of it but the timestamp, so sparkbeam's
operations hand on blocks, as far as the next operation understands them:

- Plain functions (``Map``, ``FlatMap``, ``Filter`` and the like) and DoFns run over the
  list, as long as they have one output; DoFns that ask for a side input do not.
- The assignment of windows asks once for a block, or for each slot of time in it.
- The map side of a combine adds a key's values to its accumulator at once.
- Sources and sinks read and write runs of values.

Everything else gets the elements one by one, as Beam does it.

A function may put out an object and change it afterwards. Such a result ends its block
(:mod:`sparkbeam.worker.steps.ownership`).
"""

from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Any

import numpy as np
from apache_beam.transforms.window import BoundedWindow, GlobalWindow, WindowFn
from apache_beam.utils import windowed_value
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Timestamp
from apache_beam.utils.windowed_value import PaneInfo, WindowedValue

from sparkbeam.columns.vectors import Micros, Positions
from sparkbeam.worker.intervals import Intervals
from sparkbeam.worker.object_sizes import size_of
from sparkbeam.worker.value_columns import Column

GLOBAL = WindowedValue(None, MIN_TIMESTAMP, (GlobalWindow(),))
"""Windowing of elements before any other is assigned."""

SMALLEST_BLOCK = 4
"""Fewer values are handed on one by one."""

BLOCK_SIZE = 2000
"""The most values in a block."""

BLOCK_BYTES = 1 << 20
"""Approximate maximum size of a block: with more bytes than this it has fewer values."""

COLUMN_ROWS = 65_536
"""The most values in a block that is a column."""

COLUMN_BYTES = 4 << 20
"""Approximate maximum size of a block that is a column, likewise."""

LOOK = 64
"""Number of further values after which a block that is being filled is measured again."""

_MEASURED = 8

Assigned = WindowFn | Intervals
"""Source of the windows of values: a WindowFn that needs only a timestamp, or a list."""


class Block:
    """Values with the same pane, and the same timestamp or one for each.

    They have the same windows, unless these are ``assigned``: then each value has its own, by
    a WindowFn that asks for nothing but the timestamp or in a list, and ``windowing`` has the
    pane alone.

    Args:
        windowing: a windowed value that has the windows and the pane of them all, and, unless
            there are ``stamps``, their timestamp.
        values: the values, or a column of them.
        stamps: the timestamp of each value in microseconds.
        assigned: gives each value its windows.
    """

    __slots__ = ("_stamps", "_values", "assigned", "column", "windowing")

    def __init__(
        self,
        windowing: WindowedValue,
        values: list[Any] | Column,
        stamps: list[int] | Micros | None = None,
        assigned: Assigned | None = None,
    ) -> None:
        self.windowing = windowing
        self.assigned = assigned
        self.column = values if isinstance(values, Column) else None
        self._values = None if isinstance(values, Column) else values
        self._stamps = stamps

    def __len__(self) -> int:
        return len(self._values if self.column is None else self.column)  # type: ignore[arg-type]

    @property
    def values(self) -> list[Any]:
        """The values; nobody else changes the list."""
        if self._values is None:
            assert self.column is not None
            self._values = self.column.values()
        return self._values

    @property
    def stamps(self) -> list[int] | None:
        """The timestamp of each value in microseconds; None if all have that of ``windowing``."""
        stamps = self._stamps
        if isinstance(stamps, np.ndarray):
            self._stamps = found = list(stamps.tolist())
            return found
        return stamps

    @property
    def is_stamped(self) -> bool:
        """True if each value has a separate timestamp."""
        return self._stamps is not None

    def example(self) -> WindowedValue:
        """Return the first of the elements."""
        first = self.column.first() if self._values is None and self.column else self.values[0]
        if self._stamps is None:
            return self.windowing.with_value(first)
        return windowed_value.create(first, *self.windowing_at(0, int(self._stamps[0])))

    def windowing_at(
        self, row: int, micros: int
    ) -> tuple[int, tuple[BoundedWindow, ...], PaneInfo]:
        """Return the timestamp, the windows and the pane of a value with a timestamp."""
        windows: tuple[BoundedWindow, ...]
        match self.assigned:
            case None:
                windows = self.windowing.windows
            case Intervals() as given:
                windows = next(given.take(slice(row, row + 1)).windows())
            case window_fn:
                windows = windows_at(window_fn, micros)
        return micros, windows, self.windowing.pane_info

    def elements(self) -> Iterator[WindowedValue]:
        """Return the values one by one, with their windowing; each is made when it is asked for."""
        given, template = self.assigned, self.windowing
        assert not isinstance(given, WindowFn)
        if self.stamps is None:
            return map(template.with_value, self.values)
        windows = repeat(template.windows) if given is None else given.windows()
        panes = repeat(template.pane_info)
        return map(windowed_value.create, self.values, self.stamps, windows, panes)

    def timestamps(self) -> Iterator[Timestamp]:
        """Return the timestamp of each value."""
        if self.stamps is None:
            return repeat(self.windowing.timestamp, len(self))
        return (Timestamp(micros=micros) for micros in self.stamps)

    def times(self) -> list[int]:
        """Return the timestamp of each value, in microseconds."""
        if self.stamps is None:
            return [self.windowing.timestamp_micros] * len(self)
        return self.stamps

    def time_column(self) -> Micros:
        """Return the same as an array."""
        if self._stamps is None:
            return np.full(len(self), self.windowing.timestamp_micros, np.int64)
        return np.asarray(self._stamps, np.int64)

    def with_values(self, values: list[Any]) -> "Block":
        """Return the block with another value in the place of each value."""
        return Block(self.windowing, values, self._stamps, self.assigned)

    def with_part(self, part: slice, values: list[Any]) -> "Block":
        """Return the block with other values for a range of elements."""
        stamps = None if self.stamps is None else self.stamps[part]
        return Block(self.windowing, values, stamps, self.assigned_at(part))

    def with_windowing(self, windowing: WindowedValue) -> "Block":
        """Return the same values and timestamps in other windows, or with another pane."""
        return Block(windowing, self._either(), self._stamps)

    def with_assigned(self, assigned: Assigned) -> "Block":
        """Return the same values and timestamps, each in the windows that it is given."""
        return Block(GLOBAL, self._either(), self.time_column(), assigned)

    def with_column(self, column: Column, rows: Positions | None) -> "Block":
        """Return the block with other values for some elements.

        Args:
            rows: the positions of the elements that they are for; None if one for each.
        """
        assigned = self.assigned if rows is None else self.assigned_at(rows)
        return Block(self.windowing, column, self._stamps_at(rows), assigned)

    def take(self, rows: Positions) -> "Block":
        """Return the elements at some positions."""
        some: list[Any] | Column
        if self.column is None:
            values = self.values
            some = [values[at] for at in rows.tolist()]
        else:
            some = self.column.take(rows)
        return Block(self.windowing, some, self._stamps_at(rows), self.assigned_at(rows))

    def assigned_at(self, rows: Positions | slice) -> Assigned | None:
        """Return the source of the windows of the values at some positions."""
        assigned = self.assigned
        return assigned.take(rows) if isinstance(assigned, Intervals) else assigned

    def _stamps_at(self, rows: Positions | None) -> Micros | None:
        if self._stamps is None:
            return None
        return self.time_column() if rows is None else self.time_column()[rows]

    def unstamped(self) -> "Iterator[Block]":
        """Return the same values in blocks that share their timestamp."""
        if self._stamps is None:
            return iter((self,))
        return (Block(element, [element.value]) for element in self.elements())

    def _either(self) -> list[Any] | Column:
        return self.values if self.column is None else self.column


def column_rows(rows: int, size: int) -> int:
    """Return the maximum number of rows of a block that is a column, given its rows and bytes."""
    return max(1, min(COLUMN_ROWS, COLUMN_BYTES * rows // max(1, size)))


def windows_at(window_fn: WindowFn, micros: int) -> tuple[BoundedWindow, ...]:
    """Return the windows of a time, by a WindowFn that needs only the time."""
    return tuple(window_fn.assign(WindowFn.AssignContext(Timestamp(micros=micros))))


def in_blocks(elements: Iterable[WindowedValue]) -> Iterator[Block]:
    """Join neighbours with the same windowing."""
    template: WindowedValue | None = None
    values: list[Any] = []
    size = each = 0
    for element in elements:
        if (
            template is not None
            and element.timestamp_micros == template.timestamp_micros
            and element.windows == template.windows
            and element.pane_info is template.pane_info
            and len(values) < BLOCK_SIZE
        ):
            if len(values) % _MEASURED == 1:
                each = size_of(values[-1])
            size += each
            if size < BLOCK_BYTES:
                values.append(element.value)
                continue
        if template is not None:
            yield Block(template, values)
        template, values, size = element, [element.value], 0
    if template is not None:
        yield Block(template, values)


def is_heavy(values: list[Any]) -> bool:
    """Return whether values of a future block reach its byte limit, judged by the last value."""
    return len(values) * size_of(values[-1]) >= BLOCK_BYTES


class BlockLimit:
    """Number of values of a block; learnt from the blocks of a bundle so far."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Reset the limit, as a bundle that runs again elsewhere has to make the same blocks."""
        self.values = 16
        self._unmeasured = 0

    def learn(self, values: list[Any]) -> None:
        """Take the values of a block into account; of short blocks some are measured."""
        self._unmeasured += len(values)
        if self._unmeasured < _MEASURED and len(values) < self.values:
            return
        self._unmeasured = 0
        size = max(size_of(values[0]), size_of(values[-1]))
        self.values = max(1, min(2 * self.values, BLOCK_SIZE, BLOCK_BYTES // size))


def joined(blocks: Iterable[Block]) -> Iterator[Block]:
    """Join neighbours whose windowing is one object."""
    limit = BlockLimit()
    windowing: WindowedValue | None = None
    values: list[Any] = []
    stamps: list[int] | None = None
    for block in blocks:
        if (
            block.windowing is not windowing
            or (block.stamps is None) != (stamps is None)
            or len(values) >= limit.values
        ):
            if windowing is not None:
                limit.learn(values)
                yield Block(windowing, values, stamps)
            windowing, values, stamps = block.windowing, [], None if block.stamps is None else []
        values += block.values
        if stamps is not None:
            stamps += block.times()
    if windowing is not None:
        yield Block(windowing, values, stamps)


def unstamped(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield blocks of values that all share their timestamp."""
    for block in blocks:
        yield from block.unstamped()
