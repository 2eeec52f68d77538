"""Keys as words of eight bytes, and their hashes; vectorized."""

import zlib
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkbeam.wire.binary import bytes_of, offsets_of

WORD = 8
"""Bytes of a word."""

MOST_WORDS = 8
"""Longer keys are hashed one by one."""

Hashes: TypeAlias = npt.NDArray[np.uint64]
_Places = npt.NDArray[np.int64]

_PRIME = np.uint64(0x9E3779B97F4A7C15)
_MASKS = np.array([(1 << (8 * count)) - 1 for count in range(WORD + 1)], np.uint64)


class KeyWords:
    """Keys as words.

    Args:
        keys: binary.

    Attributes:
        lengths: of the keys in bytes.
        words: the number of words of each key.
    """

    def __init__(self, keys: pa.Array) -> None:
        offsets = offsets_of(keys).astype(np.int64)
        self._starts = offsets[:-1] - offsets[0]
        self.lengths = np.diff(offsets)
        self.words = np.maximum(1, -(-self.lengths // WORD))
        self._data = np.concatenate([bytes_of(keys), np.zeros(WORD, np.uint8)])
        size = len(self._data) - WORD + 1
        # View of the word at each byte offset.
        self._at = np.ndarray((size,), "<u8", self._data, strides=(1,))

    def word(self, rows: _Places, number: int) -> Hashes:
        """Return a word of some keys, padded with zeros."""
        left = np.clip(self.lengths[rows] - WORD * number, 0, WORD)
        starts = np.where(left > 0, self._starts[rows] + WORD * number, 0)
        return self._at[starts] & _MASKS[left]

    def hashes(self, rows: _Places) -> Hashes:
        """Return hashes of some keys, equal in all processes."""
        words = self.words[rows]
        found = self.lengths[rows].astype(np.uint64)
        for number in range(min(MOST_WORDS, int(words.max()))):
            more = mixed(found ^ self.word(rows, number))
            found = np.where(words > number, more, found)
        for place in np.flatnonzero(words > MOST_WORDS).tolist():
            start = int(self._starts[rows[place]])
            end = start + int(self.lengths[rows[place]])
            found[place] = zlib.crc32(self._data[start:end].tobytes())
        return found


def mixed(words: Hashes) -> Hashes:
    """Mix the bits of words."""
    words = words * _PRIME
    return words ^ words >> np.uint64(32)
