"""Encodings of keys in columns, equal to those of Beam's coders, without an object per key."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.coders import coders

from sparkbeam.columns.python_types import BOOL, FLOAT, INT, NONE, RecordShape, Scalar, Shape
from sparkbeam.columns.vectors import as_type
from sparkbeam.plan.round_trips import OF_TYPE
from sparkbeam.wire.binary import binary, fixed_cells, offsets_of
from sparkbeam.worker.value_columns import Column, column_of, column_of_values

_OF_ANY_TYPE = (
    coders.FastPrimitivesCoder,
    coders.DeterministicFastPrimitivesCoder,
    coders.DeterministicFastPrimitivesCoderV2,
)
_PAYLOAD_BITS = 7
_MORE = 0x80


class _NotKnownError(Exception):
    """Keys that only their coder encodes."""


@dataclass(frozen=True)
class EncodedKeys:
    """Encoder of keys in their nested form."""

    coder: coders.Coder

    def of(self, keys: pa.Array, shape: Shape) -> pa.Array:
        """Return the encodings of a column."""
        try:
            return _encoded(self.coder, keys, shape)
        except (_NotKnownError, pa.ArrowInvalid):
            return self._one_by_one(column_of(keys, shape).values())

    def of_keys(self, keys: list[Any] | Column) -> pa.Array:
        """Return the encodings of keys, in a column or not."""
        if isinstance(keys, Column):
            return self.of(keys.array, keys.shape)
        column = column_of_values(keys)
        if column is not None:
            with suppress(_NotKnownError, pa.ArrowInvalid):
                return _encoded(self.coder, column.array, column.shape)
        return self._one_by_one(keys)

    def _one_by_one(self, keys: list[Any]) -> pa.Array:
        return pa.array(map(self.coder.get_impl().encode_nested, keys), pa.binary())


def _encoded(coder: coders.Coder, keys: pa.Array, shape: Shape) -> pa.Array:
    if type(coder) in _OF_ANY_TYPE:
        return _of_any_type(coder, keys, shape)
    if keys.null_count:
        raise _NotKnownError
    if OF_TYPE.get(type(coder)) == shape:
        return _of_one_type(keys, shape)
    if type(coder) is coders.TupleCoder and isinstance(shape, RecordShape) and shape.type is tuple:
        parts = coder.coders()
        if 0 < len(parts) == len(shape.fields):
            each = zip(parts, keys.flatten(), shape.fields, strict=True)
            return _joined([_encoded(*part) for part in each])
    raise _NotKnownError


def _of_any_type(coder: coders.Coder, keys: pa.Array, shape: Shape) -> pa.Array:
    """Return the encodings by a coder that writes the type before each value."""
    encode = coder.get_impl().encode_nested
    none = pa.scalar(encode(None), pa.binary())
    if shape == NONE:
        return pa.repeat(none, len(keys))
    if isinstance(shape, Scalar):
        # Of an empty value, one byte comes after the type.
        of_type = encode(shape.type())[: -8 if shape == FLOAT else -1]
        values = [_of_one_type(_filled(keys, shape), shape)]
    elif (
        isinstance(shape, RecordShape)
        and shape.fields
        and issubclass(shape.type, tuple)
        and (shape.type is tuple or type(coder) is not coders.FastPrimitivesCoder)
    ):
        # The class, unless it is pickled with the parts, and how many there are; any may be None.
        empty = tuple.__new__(shape.type, (None,) * len(shape.fields))
        of_type = encode(empty)[: -len(shape.fields) * len(none.as_py())]
        each = zip(keys.flatten(), shape.fields, strict=True)
        values = [_of_any_type(coder, *part) for part in each]
    else:
        raise _NotKnownError
    found = _joined([pa.scalar(of_type, pa.binary()), *values])
    return pc.if_else(keys.is_valid(), found, none) if keys.null_count else found


def _filled(keys: pa.Array, shape: Scalar) -> pa.Array:
    """Return the array with some value in the place of None."""
    if not keys.null_count:
        return keys
    if pa.types.is_dictionary(keys.type):  # Arrow does not fill all of them.
        keys = keys.dictionary_decode()
    return keys.fill_null(shape.type())


def _of_one_type(keys: pa.Array, shape: Shape) -> pa.Array:
    """Return the encodings by the coder of a type; there is no None."""
    if pa.types.is_dictionary(keys.type):
        keys = keys.dictionary_decode()
    if shape == INT:
        return varints(keys.cast(pa.int64()).to_numpy())
    if shape == FLOAT:
        return fixed_cells(keys.cast(pa.float64()).to_numpy().astype(">f8"))
    if shape == BOOL:
        return fixed_cells(keys.to_numpy(zero_copy_only=False).astype(np.uint8))
    texts = as_type(keys, pa.binary())
    return _joined([varints(np.diff(offsets_of(texts)).astype(np.int64)), texts])


def _joined(parts: list[pa.Array]) -> pa.Array:
    if len(parts) == 1:
        return parts[0]
    return pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.binary()))


def varints(numbers: Any) -> pa.Array:
    """Return integers in Beam's varint encoding: seven bits per byte, the last ones first.

    Args:
        numbers: an array of int64.
    """
    rest = numbers.astype(np.int64, copy=False).view(np.uint64)
    lengths = np.ones(len(rest), np.int64)
    written = [(rest & np.uint64(_MORE - 1)).astype(np.uint8)]
    rest = rest >> np.uint64(_PAYLOAD_BITS)
    while (goes_on := rest != 0).any():
        written[-1] |= goes_on.astype(np.uint8) << np.uint8(_PAYLOAD_BITS)
        lengths += goes_on
        written.append((rest & np.uint64(_MORE - 1)).astype(np.uint8))
        rest = rest >> np.uint64(_PAYLOAD_BITS)
    is_written = np.arange(len(written)) < lengths[:, np.newaxis]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return binary(offsets, np.stack(written, axis=1)[is_written])
