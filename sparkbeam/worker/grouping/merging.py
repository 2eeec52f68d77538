"""Merging of windows by a WindowFn, in one call for each key.

Beam's trigger driver merges windows with each batch of elements and keeps state for later panes. In
batch, with the default trigger, all elements of a key are there and there is one pane.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import BoundedWindow, IntervalWindow, Sessions, WindowFn
from apache_beam.utils.timestamp import Duration, Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.aggregate.canonical_sessions import Merges
from sparkbeam.aggregate.columnar_sessions import cut_sessions
from sparkbeam.wire.binary import take_cells
from sparkbeam.wire.rounding import coded, coded_span
from sparkbeam.worker.group_timestamps import ON_TIME, stamps_of
from sparkbeam.worker.row_formats.group_packs import (
    SPAN,
    joined,
    packed_spans,
    spans_of,
    without_spans,
)


def merged_spans(window_fn: WindowFn, keys: pa.Array) -> pa.Array:
    """Return each key with the window that remains after merging.

    Args:
        keys: at least one, each followed by a :data:`SPAN`; all that there are of some keys.
    """
    if type(window_fn) is Sessions:
        return _in_sessions(keys)
    found = keys.dictionary_encode()
    merged = _by_window_fn(window_fn, found.dictionary)
    return take_cells(merged, found.indices.to_numpy())


def _by_window_fn(window_fn: WindowFn, keys: pa.Array) -> pa.Array:
    """Merge windows in one call for each key.

    Args:
        keys: as for :func:`merged_spans`, each once.
    """
    places = without_spans(keys).dictionary_encode().indices.to_numpy()
    order = np.argsort(places, kind="stable")
    bounds = [0, *(np.flatnonzero(np.diff(places[order])) + 1).tolist(), len(order)]
    starts, ends = (times[order].tolist() for times in spans_of(keys))
    into = order.copy()
    others: list[bytes] = []
    for first, last in itertools.pairwise(bounds):
        # Not of all keys at once, or the garbage collector looks through them again and again.
        spans = zip(starts[first:last], ends[first:last], strict=True)
        merges = Merges([IntervalWindow(_Instant(start), _Instant(end)) for start, end in spans])
        window_fn.merge(merges)
        made: dict[int, int] = {}
        for window in merges.changed():
            at, result = merges.places.get(id(window)), merges.result(window)
            if at is None:
                continue
            place = merges.places.get(id(result))
            if place is not None:
                into[first + at] = order[first + place]
                continue
            if id(result) not in made:
                made[id(result)] = len(keys) + len(others)
                bare = keys[int(order[first])].as_py()[: -SPAN.size]
                others.append(bare + SPAN.pack(*coded_span(result)))
            into[first + at] = made[id(result)]
    rows = np.empty(len(keys), np.int64)
    rows[order] = into
    return take_cells(pa.concat_arrays([keys, pa.array(others, pa.binary())]), rows)


def _in_sessions(keys: pa.Array) -> pa.Array:
    """Merge sessions, of all keys at once."""
    bare = without_spans(keys)
    places = bare.dictionary_encode().indices.to_numpy().astype(np.int64)
    cut = cut_sessions(places, *spans_of(keys))
    of_value = cut.of_value()
    return joined(bare, packed_spans(cut.starts[of_value], cut.ends[of_value]))


class _Instant(Timestamp):
    """Timestamp that is compared and subtracted as an int: merging does little else."""

    __slots__ = ("micros",)

    _precision = Timestamp.MICROS_PRECISION

    def __init__(self, micros: int) -> None:
        self.micros: int = micros

    @property
    def _seconds(self) -> int:
        return self.micros // 1_000_000

    @property
    def _subseconds(self) -> int:
        return self.micros % 1_000_000

    def __sub__(self, other: Any) -> Any:
        if type(other) is not _Instant:
            return super().__sub__(other)
        found = Duration.__new__(Duration)
        found.micros = self.micros - other.micros
        return found

    def __eq__(self, other: object) -> bool:
        return self.micros == other.micros if type(other) is _Instant else super().__eq__(other)

    def __lt__(self, other: Any) -> bool:
        return self.micros < other.micros if type(other) is _Instant else super().__lt__(other)

    __hash__ = Timestamp.__hash__

    def __reduce__(self) -> tuple[type, tuple[int, int]]:
        return Timestamp, (0, self.micros)


class MergingGroups:
    """Groups of a key."""

    def __init__(self, windowing: Windowing) -> None:
        self._window_fn = windowing.windowfn
        self._stamps = stamps_of(windowing)

    def of(self, elements: list[WindowedValue]) -> Iterator[WindowedValue]:
        """Yield the list of values of each window that remains after merging."""
        by_window: dict[BoundedWindow, list[WindowedValue]] = defaultdict(list)
        for element in elements:
            for window in element.windows:
                by_window[window].append(element)
        merges = Merges(list(by_window))
        self._window_fn.merge(merges)
        groups: dict[BoundedWindow, list[WindowedValue]] = defaultdict(list)
        for window, members in by_window.items():
            groups[merges.result(window)] += members
        for window, members in groups.items():
            values = [member.value for member in members]
            assign = self._stamps.assign_output_time
            assigned = [assign(window, member.timestamp) for member in members]
            stamp = coded(self._stamps.merge(window, assigned))
            yield WindowedValue(values, stamp, (window,), ON_TIME)
