"""Firings of groupings, as rows of a port tell of them.

A firing is the pane's number and the encoded key of the group. Rows have it before their own key;
those of which nobody knows it have an empty one.
"""

import struct

_LENGTH = struct.Struct(">I")
_INDEX = struct.Struct(">q")

UNKNOWN = b""
"""The firing of what no grouping has just put out, such as the elements of ``finish_bundle``."""


def firing_of(key: bytes, index: int) -> bytes:
    """The firing of an encoded key with a number."""
    return _INDEX.pack(index) + key


def parts_of(firing: bytes) -> tuple[bytes, int]:
    """The key and the number of a firing that is known."""
    return firing[_INDEX.size :], _INDEX.unpack_from(firing)[0]


def with_firing(firing: bytes, key: bytes) -> bytes:
    """The key of a row that tells its firing."""
    return _LENGTH.pack(len(firing)) + firing + key


def split_key(key: bytes) -> tuple[bytes, bytes]:
    """The firing and the key of a row that tells its firing, or has no key at all."""
    if not key:
        return UNKNOWN, key
    (length,) = _LENGTH.unpack_from(key)
    end = _LENGTH.size + length
    return key[_LENGTH.size : end], key[end:]
