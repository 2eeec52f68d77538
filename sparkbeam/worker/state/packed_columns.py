"""Columns of keys, numbers and bytes, in the stored form of the parts of an ordered bag.

A column is written and read as a whole, without an object for each of its elements. Numbers are
stored in the machine's byte order, like those of a directory.
"""

from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from struct import Struct
from typing import Any

Keys = Any
"""A column of keys: an ``array`` of 64-bit numbers, or a list of bytes."""

LENGTH = "I"
"""The type of an array of lengths, in bytes."""

_NUMBER = "q"
_NUMBERS, _TEXTS = range(2)
_HEAD = Struct("<BI")


def numbers(values: Iterable[int] = ()) -> "array[int]":
    """Return a column of numbers."""
    return array(_NUMBER, values)


def keys_of(keys: Sequence[Any]) -> Keys:
    """Return a column of keys, at least one: all are 64-bit numbers, or all are bytes."""
    return list(keys) if type(keys[0]) is bytes else array(_NUMBER, keys)


def bytes_beyond_numbers(keys: Keys) -> int:
    """Return the size of keys beyond numbers, in bytes."""
    return sum(map(len, keys)) if keys and type(keys[0]) is bytes else 0


def cut(lengths: "array[int]", values: bytes, start: int = 0) -> Iterable[bytes]:
    """Return values of these lengths that are stored contiguously from an offset on."""
    return (values[low:high] for low, high in pairwise(accumulate(lengths, initial=start)))


def packed_keys(keys: Keys) -> "list[bytes | array[int]]":
    """Return the parts of a column of keys, for :func:`unpacked_keys`."""
    if type(keys) is array:
        return [_HEAD.pack(_NUMBERS, len(keys)), keys]
    return [_HEAD.pack(_TEXTS, len(keys)), array(LENGTH, map(len, keys)).tobytes(), *keys]


def unpacked_keys(data: bytes, at: int) -> tuple[Keys, int]:
    """Return a column of keys that is stored at some place, and where the next column begins."""
    kind, count = _HEAD.unpack_from(data, at)
    at += _HEAD.size
    if kind == _NUMBERS:
        return unpacked(data, at, _NUMBER, count)
    lengths, at = unpacked(data, at, LENGTH, count)
    keys = list(cut(lengths, data, at))
    return keys, at + sum(lengths)


def unpacked(data: bytes, at: int, kind: str, count: int) -> tuple["array[int]", int]:
    """Return an array that is stored at some place, and where the next column begins."""
    column = array(kind)
    until = at + column.itemsize * count
    column.frombytes(data[at:until])
    return column, until
