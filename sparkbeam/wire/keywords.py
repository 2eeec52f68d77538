"""Hashes of keys, equal in all processes; vectorized over words of eight bytes."""

import zlib
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkbeam.wire.binary import bytes_of, offsets_of

_WORD = 8
"""Bytes of a word."""

_MOST_WORDS = 8
"""Longer keys are hashed one by one."""

Hashes: TypeAlias = npt.NDArray[np.uint64]

_PRIME = np.uint64(0x9E3779B97F4A7C15)
_MASKS = np.array([(1 << (8 * count)) - 1 for count in range(_WORD + 1)], np.uint64)


def hashes_of(keys: pa.Array) -> Hashes:
    """Return the hashes of keys.

    Args:
        keys: binary, at least one.
    """
    offsets = offsets_of(keys).astype(np.int64)
    starts, lengths = offsets[:-1] - offsets[0], np.diff(offsets)
    words = np.maximum(1, -(-lengths // _WORD))
    data = np.concatenate([bytes_of(keys), np.zeros(_WORD, np.uint8)])
    # View of the word at each byte offset.
    word_at = np.ndarray((len(data) - _WORD + 1,), "<u8", data, strides=(1,))
    found = lengths.astype(np.uint64)
    for number in range(min(_MOST_WORDS, int(words.max()))):
        # Words are padded with zeros.
        left = np.clip(lengths - _WORD * number, 0, _WORD)
        word = word_at[np.where(left > 0, starts + _WORD * number, 0)] & _MASKS[left]
        found = np.where(words > number, mixed(found ^ word), found)
    for place in np.flatnonzero(words > _MOST_WORDS).tolist():
        found[place] = zlib.crc32(data[starts[place] : starts[place] + lengths[place]].tobytes())
    return found


def mixed(words: Hashes) -> Hashes:
    """Mix the bits of words."""
    words = words * _PRIME
    return words ^ words >> np.uint64(32)
