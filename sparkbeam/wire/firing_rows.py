"""Firings of groupings, as carried by the rows of a port.

A firing is the pane's number and the encoded key of the group. It precedes the row's own key; an
unknown firing is empty.
"""

import struct

_LENGTH = struct.Struct(">I")
_INDEX = struct.Struct(">q")

UNKNOWN = b""
"""Firing of elements without a grouping, such as those of ``finish_bundle``."""


def firing_of(key: bytes, index: int) -> bytes:
    """Encode the firing of an encoded key."""
    return _INDEX.pack(index) + key


def parts_of(firing: bytes) -> tuple[bytes, int]:
    """Return the key and the pane number of a known firing."""
    return firing[_INDEX.size :], _INDEX.unpack_from(firing)[0]


def with_firing(firing: bytes, key: bytes) -> bytes:
    """Prepend the firing to a row's key."""
    return _LENGTH.pack(len(firing)) + firing + key


def split_key(key: bytes) -> tuple[bytes, bytes]:
    """Split a row's key into its firing and its own key, or return an empty firing."""
    if not key:
        return UNKNOWN, key
    (length,) = _LENGTH.unpack_from(key)
    end = _LENGTH.size + length
    return key[_LENGTH.size : end], key[end:]
