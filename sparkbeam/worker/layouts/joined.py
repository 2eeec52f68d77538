"""``Layout.JOIN_SIDE`` and ``Layout.JOIN_KEYS``: the sides of a join by Spark, and what it makes.

A side has a row for each element and window: the key is the encoded key, then the window, then
:data:`~sparkbeam.wire.rows.JOIN_KEY_END`. A row of the join has the value of the left side in
``value``, that of the right side in ``other``, and null in the place of an element that there is
not.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from apache_beam.coders import coder_impl, coders
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import GlobalWindow, GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.columns.vectors import Positions
from sparkbeam.wire.rounding import coded_end
from sparkbeam.wire.rows import JOIN_KEY_END, RowWriter
from sparkbeam.worker.blocks import BLOCK_BYTES, BLOCK_SIZE, Block
from sparkbeam.worker.layouts.groups import window_suffix_coder
from sparkbeam.worker.layouts.sink import Sink
from sparkbeam.worker.layouts.tables import all_immutable
from sparkbeam.worker.layouts.values import RunCoder
from sparkbeam.worker.stamps import ON_TIME, ONLY_FIRING

_MOST_KEYS = 50_000
"""So many keys are remembered, so that one is not written again."""

_KEY, _LEFT, _RIGHT = 1, 3, 2
"""The columns of a row of a join."""


class JoinSideSink(Sink):
    """``Layout.JOIN_SIDE``: a row for each element in each of its windows."""

    def __init__(
        self, tag: int, rows: RowWriter, coder: coders.WindowedValueCoder, windowing: Windowing
    ) -> None:
        self._tag = tag
        self._rows = rows
        self._encode_key = coder.wrapped_value_coder.key_coder().get_impl().encode_nested
        self._encode_value = coder.wrapped_value_coder.value_coder().get_impl().encode_nested
        self._encode_window = window_suffix_coder(windowing)

    def write(self, windowed_value: WindowedValue) -> None:
        self._write([windowed_value.value], windowed_value.windows)

    def write_block(self, block: Block) -> None:
        if block.assigned is None:
            self._write(block.values, block.windowing.windows)
        else:
            super().write_block(block)

    def _write(self, pairs: Sequence[tuple[Any, Any]], windows: Iterable[Any]) -> None:
        encode_key, encode_value = self._encode_key, self._encode_value
        keys = [encode_key(key) for key, _ in pairs]
        values = [encode_value(value) for _, value in pairs]
        for window in windows:
            end = self._encode_window(window) + JOIN_KEY_END
            self._extend([key + end for key in keys], values)

    def _extend(self, keys: list[bytes], values: list[bytes]) -> None:
        self._rows.extend(self._tag, keys, [0] * len(keys), values)

    def flush(self) -> None:
        """Nothing is held back."""


class JoinKeySink(JoinSideSink):
    """``Layout.JOIN_KEYS``: a row for each key and window, which has no value."""

    def __init__(
        self, tag: int, rows: RowWriter, coder: coders.WindowedValueCoder, windowing: Windowing
    ) -> None:
        super().__init__(tag, rows, coder, windowing)
        self._encode_value = lambda value: b""
        self._written: set[bytes] = set()

    def _extend(self, keys: list[bytes], values: list[bytes]) -> None:
        found = [key for key in dict.fromkeys(keys) if key not in self._written]
        if len(self._written) > _MOST_KEYS:
            self._written.clear()
        self._written.update(found)
        super()._extend(found, [b""] * len(found))


class JoinReader:
    """Makes elements of the rows of a join: triples of the key and a value of each side.

    Args:
        left: the coder of the left side.
        right: that of the right side.
        windowing: that of both.
    """

    def __init__(
        self,
        left: coders.WindowedValueCoder,
        right: coders.WindowedValueCoder,
        windowing: Windowing,
    ) -> None:
        key = left.wrapped_value_coder.key_coder().get_impl()
        self._decode_key = key.decode_from_stream
        # The end of a key, a zero byte, is as good as False.
        self._ended_keys = RunCoder(coder_impl.TupleCoderImpl([key, coder_impl.BooleanCoderImpl()]))
        self._left = RunCoder(left.wrapped_value_coder.value_coder().get_impl())
        self._right = RunCoder(right.wrapped_value_coder.value_coder().get_impl())
        self._decode_window: Callable[[bytes], Any] | None = None
        if not isinstance(windowing.windowfn, GlobalWindows):
            self._decode_window = windowing.windowfn.get_window_coder().decode
        self._templates: dict[bytes, WindowedValue] = {}

    def blocks(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Block]:
        """The elements of batches of rows."""
        for batch in batches:
            step = max(1, min(BLOCK_SIZE, BLOCK_BYTES * batch.num_rows // max(1, batch.nbytes)))
            for start in range(0, batch.num_rows, step):
                yield from self._block(batch.slice(start, step))

    def _block(self, rows: pa.RecordBatch) -> Iterator[Block]:
        composites = rows.column(_KEY).dictionary_encode()
        keys, ends = self._keys(composites.dictionary)
        places = composites.indices.to_numpy()
        lefts = _values(rows.column(_LEFT), self._left)
        rights = _values(rows.column(_RIGHT), self._right)
        triples = list(zip(map(keys.__getitem__, places.tolist()), lefts, rights, strict=True))
        if len(set(ends)) == 1:
            yield Block(self._template(ends[0]), triples)
            return
        for end, positions in _by_end(ends, places):
            yield Block(self._template(end), [triples[at] for at in positions])

    def _keys(self, composites: pa.Array) -> tuple[list[Any], list[bytes]]:
        """The keys that there are, and the encoded window of each; of the global one once."""
        if self._decode_window is None:
            return [key for key, _ in _decoded(composites, self._ended_keys)], [b""]
        keys, ends = [], []
        for composite in composites.to_pylist():
            stream = coder_impl.create_InputStream(composite[: -len(JOIN_KEY_END)])
            keys.append(self._decode_key(stream, True))
            ends.append(stream.read_all(False))
        return keys, ends

    def _template(self, end: bytes) -> WindowedValue:
        """What elements of an encoded window have in common: the end of it is their time."""
        template = self._templates.get(end)
        if template is None:
            if len(self._templates) > BLOCK_SIZE:
                self._templates.clear()
            pane = ONLY_FIRING if self._decode_window is None else ON_TIME
            window = GlobalWindow() if self._decode_window is None else self._decode_window(end)
            template = WindowedValue(None, coded_end(window), (window,), pane)
            self._templates[end] = template
        return template


def _by_end(ends: list[bytes], places: Positions) -> Iterator[tuple[bytes, list[int]]]:
    """The positions of the rows of each window, in their order."""
    numbers: dict[bytes, int] = {}
    of_key = np.array([numbers.setdefault(end, len(numbers)) for end in ends])
    of_row = of_key[places]
    order = np.argsort(of_row, kind="stable")
    firsts = np.searchsorted(of_row[order], np.arange(len(numbers) + 1))
    for end, number in numbers.items():
        yield end, order[firsts[number] : firsts[number + 1]].tolist()


def _values(column: pa.Array, runs: RunCoder) -> list[Any]:
    """The values of a column of encodings; None in the place of null.

    Equal ones are one object if nobody can change it, as the elements of a side are in the
    pairs of a CoGroupByKey.
    """
    if column.null_count == len(column):
        return [None] * len(column)
    distinct = column.dictionary_encode()
    if 2 * len(distinct.dictionary) <= len(column):
        found = _decoded(distinct.dictionary, runs)
        if all_immutable(found):
            found.append(None)
            places = distinct.indices.fill_null(len(found) - 1)
            return list(map(found.__getitem__, places.to_pylist()))
    if not column.null_count:
        return _decoded(column, runs)
    some = iter(_decoded(column.drop_null(), runs))
    return [next(some) if is_there else None for is_there in column.is_valid().to_pylist()]


def _decoded(column: pa.Array, runs: RunCoder) -> list[Any]:
    """The values of a column without nulls, whose bytes stand one behind the other."""
    if column.type != pa.binary():
        column = column.cast(pa.binary())
    _, offsets, content = column.buffers()
    bounds = np.frombuffer(offsets, np.int32)[column.offset :][: len(column) + 1]
    content = b"" if content is None else content[int(bounds[0]) : int(bounds[-1])].to_pybytes()
    return runs.decode(RunCoder.of(len(column), content))
