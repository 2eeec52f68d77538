"""The forms in which Arrow may hold the same values: each is a way to make an array of them.

Readers, casts, slices and other libraries all make arrays of other forms: with an offset, with
bytes that begin somewhere in their buffer, with something under None, as a dictionary, with wider
or narrower types.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

Make = Callable[[list[Any], pa.DataType], pa.Array]
"""Makes an array of values, which Python takes for those of a type."""

_TEXTS = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}
_NARROW = {
    pa.int64(): (pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.uint32()),
    pa.float64(): (pa.float32(),),
}


def other_value(kind: pa.DataType) -> Any:
    """A value to stand where nobody should look."""
    if kind in _TEXTS or kind in _TEXTS.values():
        text = "Other rows: é"
        is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        return text if is_text else text.encode()
    if pa.types.is_boolean(kind):
        return True
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return 77
    return None


def _in_the_middle(before: int, *, of: Any = None) -> Make:
    """A slice, with other values, or None, around it."""

    def make(values: list[Any], kind: pa.DataType) -> pa.Array:
        other = other_value(kind) if of is None else None
        every = [other] * before + values + [other] * 3
        return pa.array(every, kind).slice(before, len(values))

    return make


def _wide(make: Make, *, cast_back: bool = False) -> Make:
    """Texts in the type with longer offsets, or that have been in it."""

    def made(values: list[Any], kind: pa.DataType) -> pa.Array:
        wide = make(values, _TEXTS.get(kind, kind))
        return wide.cast(kind) if cast_back else wide

    return made


def _narrow(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Numbers in the narrowest type that holds them, in a slice."""
    for narrow in _NARROW.get(kind, ()):
        try:
            found = _in_the_middle(3)(values, narrow)
        except (pa.ArrowInvalid, OverflowError):
            continue
        if repr(found.to_pylist()) == repr(values):
            return found
    return pa.array(values, kind)


def _unsigned(values: list[Any], kind: pa.DataType) -> pa.Array:
    if kind != pa.int64() or any(value is not None and value < 0 for value in values):
        return pa.array(values, kind)
    return _in_the_middle(2)(values, pa.uint64())


def _bytes_in_the_middle(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Without an offset, but of texts that begin somewhere in the buffer."""
    if kind not in _TEXTS:
        return pa.array(values, kind)
    around = _in_the_middle(3)(values, kind)
    bounds = np.frombuffer(around.buffers()[1], np.int32)[3 : 4 + len(values)].copy()
    is_there = _bitmap(values) if None in values else None
    buffers = [is_there, pa.py_buffer(bounds), around.buffers()[2]]
    return pa.Array.from_buffers(kind, len(values), buffers)


def _something_under_none(values: list[Any], kind: pa.DataType) -> pa.Array:
    if None not in values or other_value(kind) is None:
        return pa.array(values, kind)
    filled = [other_value(kind) if value is None else value for value in values]
    buffers = [_bitmap(values), *pa.array(filled, kind).buffers()[1:]]
    return pa.Array.from_buffers(kind, len(values), buffers)


def _bitmap_without_none(values: list[Any], kind: pa.DataType) -> pa.Array:
    plain = pa.array(values, kind)
    if plain.null_count or plain.type.num_fields:
        return plain
    return pa.Array.from_buffers(kind, len(values), [_bitmap(values), *plain.buffers()[1:]])


def _bitmap(values: list[Any]) -> pa.Buffer:
    return pa.array([value is not None for value in values], pa.bool_()).buffers()[1]


def _dictionary(make: Make) -> Make:
    """A dictionary of all values that an array has, also around it."""

    def made(values: list[Any], kind: pa.DataType) -> pa.Array:
        around = make([other_value(kind), *values, other_value(kind)], kind)
        return around.dictionary_encode().slice(1, len(values))

    return made


def _dictionary_with_all_twice(values: list[Any], kind: pa.DataType) -> pa.Array:
    """None in the dictionary, equal values at several places, narrow numbers of them."""
    order = [2 * at + at % 2 for at in range(len(values))]
    items = [value for value in values for _ in range(2)]
    if 2 * len(values) > np.iinfo(np.int8).max:
        return pa.DictionaryArray.from_arrays(pa.array(order, pa.int32()), pa.array(items, kind))
    return pa.DictionaryArray.from_arrays(pa.array(order, pa.int8()), pa.array(items, kind))


def _taken(values: list[Any], kind: pa.DataType) -> pa.Array:
    backwards = _in_the_middle(2)(values[::-1], kind)
    return backwards.take(pa.array(np.arange(len(values))[::-1].copy()))


def _items_of_lists(values: list[Any], kind: pa.DataType) -> pa.Array:
    items = pa.array([other_value(kind)] * 3 + values, kind)
    lists = pa.ListArray.from_arrays(pa.array([0, 3, len(items)], pa.int32()), items)
    return lists.slice(1).flatten()


def _field_of_slice(values: list[Any], kind: pa.DataType) -> pa.Array:
    items = pa.array([other_value(kind)] * 5 + values, kind)
    return pa.StructArray.from_arrays([items], ["x"]).slice(5).field(0)


def _sent(values: list[Any], kind: pa.DataType) -> pa.Array:
    batch = pa.record_batch([_in_the_middle(3)(values, kind)], ["x"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return pa.ipc.open_stream(sink.getvalue()).read_next_batch().column(0)


def _joined(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Pieces, in one."""
    pieces = [values[at : at + 2] for at in range(0, len(values), 2)] or [[]]
    return pa.chunked_array([_in_the_middle(1)(one, kind) for one in pieces], kind).combine_chunks()


FORMS: dict[str, Make] = {
    "in the middle": _in_the_middle(3),
    "in the middle by a byte of bits": _in_the_middle(8),
    "in the middle by a word of bits": _in_the_middle(65),
    "among None": _in_the_middle(9, of=type(None)),
    "bytes in the middle": _bytes_in_the_middle,
    "something under None": _something_under_none,
    "a bitmap without None": _bitmap_without_none,
    "wide": _wide(pa.array),
    "wide, in the middle": _wide(_in_the_middle(3)),
    "wide, in the middle by a byte of bits": _wide(_in_the_middle(8)),
    "wide, something under None": _wide(_something_under_none),
    "cast from wide": _wide(_in_the_middle(3), cast_back=True),
    "cast from wide by a byte of bits": _wide(_in_the_middle(8), cast_back=True),
    "narrow": _narrow,
    "unsigned": _unsigned,
    "dictionary": _dictionary(pa.array),
    "dictionary, in the middle": _dictionary(_in_the_middle(2)),
    "dictionary of wide": _dictionary(_wide(_in_the_middle(2))),
    "dictionary with all twice": _dictionary_with_all_twice,
    "dictionary of wide with all twice": _wide(_dictionary_with_all_twice),
    "taken": _taken,
    "items of lists": _items_of_lists,
    "field of a slice": _field_of_slice,
    "sent": _sent,
    "joined": _joined,
}
"""By name; the plain form of :func:`pyarrow.array` is none of them."""
