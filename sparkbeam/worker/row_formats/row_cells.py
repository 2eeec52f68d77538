"""Cells with one value of a column each, written and read in bulk.

A cell is a head with the type of the value, records of a fixed length, and the concatenated texts
of the value. All cells of a column have the same head, which is short: it leaves out the names of
fields that a coder knows. The record has a bit for each part that is None, then each number, and
the length of each text.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.coders import coders

from sparkbeam.columns.python_types import (
    BOOL,
    BYTES,
    FLOAT,
    INT,
    NONE,
    STR,
    Opaque,
    RecordShape,
    Shape,
    arrow_type_of,
)
from sparkbeam.columns.vectors import Bools
from sparkbeam.plan.join_columns import why_no_cells
from sparkbeam.plan.round_trips import round_tripped
from sparkbeam.wire.binary import (
    between,
    buffer_of,
    bytes_of,
    fixed_cells,
    offsets_of,
)
from sparkbeam.worker.row_formats.type_heads import HeadCoder
from sparkbeam.worker.value_columns import Column, column_of

_TEXTS = frozenset([STR, BYTES])
_LENGTH = np.dtype("<i4")


class RowCells:
    """Coder of column values, if it is known what their own coder would restore.

    Decoded values equal those that the coder would restore.
    """

    def __init__(self, coder: coders.Coder) -> None:
        self._coder = coder
        self._heads = HeadCoder(coder)
        self._forms: dict[Shape, _Form | None] = {}
        self._read: dict[bytes, _Form] = {}

    def encode(self, values: pa.Array, shape: Shape) -> pa.Array | None:
        """Return a cell for each value; None if they have to be encoded as elements."""
        back = round_tripped(self._coder, values, shape)
        form = None if back is None else self._form(back)
        if form is None:
            return None
        try:
            return form.encode(values)
        except pa.ArrowInvalid:
            # An int beyond 64 bits.
            return None

    def decode(self, cells: pa.Array) -> Iterator[tuple[Column, npt.NDArray[np.int64] | None]]:
        """Yield the values of cells, in a column for each head.

        Args:
            cells: binary, without nulls, and one at least.

        Yields:
            Values and their positions; None as the positions of all.
        """
        rest = np.arange(len(cells))
        some = cells
        while len(rest):
            first: bytes = some[0].as_py()
            head = first[: 1 + first[0]]
            of_form = pc.starts_with(some, head)
            form = self._read.get(head)
            if form is None:
                form = self._read[head] = _Form(self._heads.decode(head), head)
            if pc.all(of_form).as_py():
                yield form.decode(some), None if len(rest) == len(cells) else rest
                return
            is_here = of_form.to_numpy(zero_copy_only=False)
            yield form.decode(some.filter(of_form)), rest[is_here]
            rest = rest[~is_here]
            some = cells.take(pa.array(rest))

    def values(self, cells: pa.Array) -> list[Any]:
        """Return the values as objects, in the order of the cells."""
        values: list[Any] = [None] * len(cells)
        for column, rows in self.decode(cells):
            if rows is None:
                return column.values()
            for row, value in zip(rows.tolist(), column.values(), strict=True):
                values[row] = value
        return values

    def _form(self, shape: Shape) -> "_Form | None":
        if shape not in self._forms:
            head = None if why_no_cells(shape) else self._heads.encode(shape)
            self._forms[shape] = None if head is None else _Form(shape, head)
        return self._forms[shape]


class _Form:
    """The cells of a shape.

    Attributes:
        parts: the parts of values: records, before their fields, and all else.
    """

    def __init__(self, shape: Shape, head: bytes) -> None:
        self.shape = shape
        self.head = head
        self.parts = parts = tuple(_parts(shape))
        kinds: list[Any] = [("head", f"V{len(head)}"), ("nulls", "u1", (-(-len(parts) // 8),))]
        kinds += [(str(at), kind) for at, part in enumerate(parts) if (kind := _kind(part))]
        self.record = np.dtype(kinds)

    def encode(self, values: pa.Array) -> pa.Array:
        """Return a cell for each value."""
        records = np.zeros(len(values), self.record)
        records["head"] = np.frombuffer(self.head, self.record["head"])[0]
        nulls = np.zeros((len(values), 8 * records["nulls"].shape[1]), np.bool_)
        texts = []
        for at, (part, shape) in enumerate(_arrays(values, self.shape)):
            if part.null_count:
                nulls[:, at] = part.is_null().to_numpy(zero_copy_only=False)
            if shape in _TEXTS:
                text = part.fill_null(b"") if part.null_count else part
                records[str(at)] = np.diff(offsets_of(text))
                texts.append(text)
            elif not isinstance(shape, RecordShape) and shape != NONE:
                written = records[str(at)]
                written[:] = _fixed_values(part, written.dtype)
                if part.null_count:
                    written[nulls[:, at]] = np.zeros(1, written.dtype)[0]
        records["nulls"] = np.packbits(nulls, axis=1)
        cells = fixed_cells(records)
        if not texts:
            return cells
        return pc.binary_join_element_wise(cells, *texts, pa.scalar(b"", pa.binary()))

    def decode(self, cells: pa.Array) -> Column:
        """Return the values of cells."""
        records, texts = self._records_and_texts(cells)
        nulls = np.unpackbits(records["nulls"], axis=1)[:, : len(self.parts)].astype(np.bool_)
        return column_of(
            self._array(iter(range(len(self.parts))), records, nulls, texts), self.shape
        )

    def _records_and_texts(self, cells: pa.Array) -> tuple[npt.NDArray[Any], Iterator[pa.Array]]:
        """Return the records of cells, and their texts, one after the other."""
        size = self.record.itemsize
        of_texts = [at for at, part in enumerate(self.parts) if part in _TEXTS]
        if not of_texts:
            return bytes_of(cells).view(self.record), iter(())
        starts, data = offsets_of(cells)[:-1].astype(np.int64), buffer_of(cells)
        records = bytes_of(between(data, starts, starts + size)).view(self.record)
        texts = []
        starts = starts + size
        for at in of_texts:
            ends = starts + records[str(at)]
            texts.append(between(data, starts, ends))
            starts = ends
        return records, iter(texts)

    def _array(
        self,
        places: Iterator[int],
        records: npt.NDArray[Any],
        nulls: Bools,
        texts: Iterator[pa.Array],
    ) -> pa.Array:
        """Return the array of the next part, and of those that are in it."""
        at = next(places)
        shape, count = self.parts[at], len(records)
        is_null = nulls[:, at]
        validity = None
        if is_null.any():
            validity = pa.py_buffer(np.packbits(~is_null, bitorder="little"))
        kind = arrow_type_of(shape)
        if isinstance(shape, RecordShape):
            fields = [self._array(places, records, nulls, texts) for _ in shape.fields]
            kind = pa.struct(
                [pa.field(name, one.type) for name, one in zip(shape.names, fields, strict=True)]
            )
            return pa.Array.from_buffers(kind, count, [validity], children=fields)
        if shape == NONE:
            return pa.nulls(count)
        if shape in _TEXTS:
            _, offsets, data = next(texts).buffers()
            return pa.Array.from_buffers(kind, count, [validity, offsets, data])
        values = records[str(at)]
        bits = np.packbits(values, bitorder="little") if shape == BOOL else values
        data = pa.py_buffer(np.ascontiguousarray(bits))
        return pa.Array.from_buffers(kind, count, [validity, data])


def _parts(shape: Shape) -> Iterator[Shape]:
    yield shape
    if isinstance(shape, RecordShape):
        for part in shape.fields:
            yield from _parts(part)


def _kind(part: Shape) -> Any:
    """Return the form of a part in a record; None if records do not hold it."""
    if part in _TEXTS:
        return _LENGTH
    if part == BOOL:
        return np.dtype("u1")
    if part in (INT, FLOAT):
        return np.dtype("<i8" if part == INT else "<f8")
    if isinstance(part, Opaque):
        return np.dtype(f"V{part.arrow_type.bit_width // 8}")
    return None


def _arrays(array: pa.Array, shape: Shape) -> Iterator[tuple[pa.Array, Shape]]:
    """Yield the columns of all parts, of types that follow from the parts."""
    if not isinstance(shape, RecordShape):
        yield _plain(array, shape), shape
        return
    yield array, shape
    # Where a record is None its fields are, too.
    for part, of_part in zip(array.flatten(), shape.fields, strict=True):
        yield from _arrays(part, of_part)


def _plain(array: pa.Array, shape: Shape) -> pa.Array:
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    kind = pa.binary() if shape in _TEXTS else arrow_type_of(shape)
    return array if array.type == kind else array.cast(kind)


def _fixed_values(array: pa.Array, kind: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return the numbers of an array, with any values for nulls."""
    if pa.types.is_boolean(array.type):
        found: npt.NDArray[Any] = array.fill_null(False).to_numpy(zero_copy_only=False)
        return found
    data = np.frombuffer(array.buffers()[1], kind, array.offset + len(array))
    return data[array.offset :]
