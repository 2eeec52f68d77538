"""Numbers of many keys, added to the stripes of pages in columns.

Stripes are for open windows, which emit nothing as numbers arrive. When such a window fires, the
aggregates of all its keys are emitted as columns, too. All other state of keys is in records, and
is left to the code that processes single keys.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.accumulators.vectorized_accumulator import Numbers, VectorizedAccumulator
from sparkbeam.columns.order import begins_of, firsts_of, ranges_of
from sparkbeam.worker.blocks import COLUMN_ROWS, Block
from sparkbeam.worker.column_accumulators import Combine
from sparkbeam.worker.row_formats.aggregate_cells import AggregateCell
from sparkbeam.worker.row_formats.cells import KeyCells
from sparkbeam.worker.state.page import Page
from sparkbeam.worker.state.pages import KeyedState
from sparkbeam.worker.state.records import HELD_BYTES
from sparkbeam.worker.state.stripes import OpenWindow, Places, Stripe, WindowStripe, timer_of


class StripeStore:
    """Numbers kept in stripes.

    Args:
        opened: the windows of elements; None if they are not supported.
    """

    def __init__(
        self,
        cells: KeyCells,
        keyed: KeyedState,
        combine: Combine,
        decode_key: Callable[[bytes], Any],
        opened: Callable[[WindowedValue], list[OpenWindow] | None],
    ) -> None:
        assert combine.form is not None
        self._cells = cells
        self._keyed = keyed
        self._combine = combine
        self._form: VectorizedAccumulator = combine.form
        self._decode_key = decode_key
        self._opened = opened
        self._add_up = partial(self._form.add_in_order, merges=True)

    def add(self, cells: list[bytes]) -> Iterator[AggregateCell]:
        """Add the supported rows; return the others."""
        by_head: dict[bytes, list[AggregateCell]] = {}
        for cell in cells:
            head, _ = self._cells.head_of(cell)
            found = AggregateCell.unpacked(cell, head, self._form.kind)
            by_head.setdefault(head, []).append(found)
        for head, parts in by_head.items():
            windows = self._opened(self._cells.head_of(head)[1])
            kinds = {part.numbers.dtype for part in parts}
            if windows is None or len(windows) > 1 or len(kinds) > 1:
                yield from parts
            else:
                keys = pa.concat_arrays([part.keys for part in parts])
                numbers = np.concatenate([part.numbers for part in parts])
                yield from self._add(windows[0], AggregateCell(head, keys, numbers))

    def _add(self, window: OpenWindow, found: AggregateCell) -> Iterator[AggregateCell]:
        """Add to a window; return the rows that are not supported."""
        encoded = found.keys.dictionary_encode()
        of_keys = encoded.indices.to_numpy()
        order = np.argsort(of_keys, kind="stable")
        firsts = firsts_of(of_keys[order])
        lengths = np.diff(firsts, append=len(order))
        keys = encoded.dictionary.to_pylist()
        for page, in_page in chain.from_iterable(self._keyed.places_by_page(keys)):
            places = in_page
            if page.records:
                has_record = np.array([keys[place] in page.records for place in places.tolist()])
                places = in_page[~has_record]
                if has_record.any():
                    yield found.take(order[_runs(firsts, lengths, in_page[has_record])])
            if not len(places):
                continue
            rows = order[_runs(firsts, lengths, places)]
            some = encoded.dictionary.take(pa.array(places))
            begins = begins_of(lengths[places])
            if not page.add(window, some, found.numbers[rows], begins, self._add_up):
                yield found.take(rows)

    def fire(
        self, limit: int, on_time: Callable[[OpenWindow], WindowedValue | None]
    ) -> Iterator[Block]:
        """Emit the windows that are due.

        Args:
            on_time: the pane of a window, without its value; None if its keys need
                records, as there is more to come.
        """
        waiting: dict[OpenWindow, list[tuple[pa.Array, Numbers]]] = {}
        count = 0
        for group in self._keyed.due_stripes(limit):
            for page, stripe in group:
                assert isinstance(stripe, WindowStripe)
                if on_time(stripe.window) is None:
                    page.to_records(stripe.keys.to_pylist())
                    continue
                page.drop(stripe)
                waiting.setdefault(stripe.window, []).append((stripe.keys, stripe.numbers))
                count += len(stripe)
            if count >= COLUMN_ROWS:
                yield from self._blocks(waiting, on_time)
                count = 0
        yield from self._blocks(waiting, on_time)

    def _blocks(
        self,
        waiting: dict[OpenWindow, list[tuple[pa.Array, Numbers]]],
        on_time: Callable[[OpenWindow], WindowedValue | None],
    ) -> Iterator[Block]:
        """Yield blocks of what waits, and stop it waiting."""
        for window in sorted(waiting, key=lambda window: window.fires):
            template = on_time(window)
            assert template is not None
            by_kind: dict[Any, list[tuple[pa.Array, Numbers]]] = {}
            for keys, numbers in waiting[window]:
                by_kind.setdefault(numbers.dtype, []).append((keys, numbers))
            for some in by_kind.values():
                all_keys, all_numbers = zip(*some, strict=True)
                encoded = pa.concat_arrays(all_keys).to_pylist()
                keys = list(map(self._decode_key, encoded))
                yield Block(template, self._combine.groups(keys, np.concatenate(all_numbers)))
        waiting.clear()


def windows_to_records(
    accumulators: Callable[[Numbers], Sequence[Any]],
    page: Page,
    stripe: Stripe,
    found: list[tuple[bytes, list[int]]],
) -> None:
    """Give a page the content of records for keys of a stripe; see :data:`.Thaw`.

    Args:
        accumulators: makes encoded accumulators of numbers.
    """
    assert isinstance(stripe, WindowStripe)
    window, timer = stripe.window, timer_of(stripe.window)
    (numbers,) = stripe.all_columns
    encoded = accumulators(numbers[[row for _, (row,) in found]])
    for (key, _), accumulator in zip(found, encoded, strict=True):
        content = page.records.setdefault(key, ({}, {}, {}, {}))
        content[0][window.cell] = (0, window.stamp, accumulator)
        content[1][window.cell] = timer
        content[2][window.cell] = window.hold
    page.changed_all([key for key, _ in found], HELD_BYTES * len(found))


def _runs(firsts: Places, lengths: Places, places: Places) -> Places:
    """Return the places of the rows of some runs."""
    found, _ = ranges_of(firsts[places], lengths[places])
    return found
