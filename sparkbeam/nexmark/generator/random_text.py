"""Random texts, a column at a time.

Texts are drawn into a matrix of characters with one text a row, and become an
Arrow column from there.
"""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparkbeam.nexmark.generator.random import Ints, Random

_SPACE = 32
_LETTER_A = 97
_LETTERS = 26
_SPACE_RATIO = 13
_SHORTEST = 3
_CHARACTERS_OF_DRAW = 6
_VARIATION = 0.2

Characters = NDArray[np.uint8]


def words(random: Random, longest: int) -> pa.StringArray:
    """Words of at least 3 and fewer than ``longest`` letters and spaces, trimmed."""
    lengths = _SHORTEST + random.next_int(longest - _SHORTEST)
    text = np.full((longest, len(random)), _SPACE, np.uint8)
    for place in range(longest):
        rows = np.flatnonzero(lengths > place)
        rows = rows[random.next_int(_SPACE_RATIO, rows) > 0]
        text[place, rows] = _LETTER_A + random.next_int(_LETTERS, rows)
    inked = text != _SPACE
    first = inked.argmax(axis=0)
    behind = np.where(inked.any(axis=0), longest - inked[::-1].argmax(axis=0), first)
    return column(text.T, first, behind)


def padding(random: Random, sizes: Ints, average: int) -> pa.StringArray:
    """Texts that bring rows of these sizes to about the average, if they are not larger."""
    missing = np.maximum(average - sizes, 0)
    delta = np.floor(_VARIATION * missing + 0.5).astype(np.int64)
    varied = np.flatnonzero(delta)
    lengths = missing - delta
    lengths[varied] += random.next_int(2 * delta[varied], varied)
    draws = -(-int(lengths.max(initial=0)) // _CHARACTERS_OF_DRAW)
    text = np.empty((len(random), draws, _CHARACTERS_OF_DRAW), np.uint8)
    for draw in range(draws):
        drawn = random.next_signed()
        for place in range(_CHARACTERS_OF_DRAW):
            # Java rounds towards zero, so a remainder has the sign of what is divided.
            rest = _divided(drawn)
            text[:, draw, place] = _LETTER_A + drawn - rest * _LETTERS
            drawn = rest
    return column(
        text.reshape(len(random), draws * _CHARACTERS_OF_DRAW), np.zeros_like(lengths), lengths
    )


def digits(numbers: list[Ints], width: int) -> pa.StringArray:
    """Numbers with leading zeros and a space between them."""
    text = np.full((len(numbers[0]), len(numbers) * (width + 1) - 1), _SPACE, np.uint8)
    for place, number in enumerate(numbers):
        for power in range(width):
            text[:, place * (width + 1) + power] = 48 + number // 10 ** (width - 1 - power) % 10
    rows, end = text.shape
    return column(text, np.zeros(rows, np.int64), np.full(rows, end))


def column(text: Characters, first: Ints, behind: Ints) -> pa.StringArray:
    """The part of each row from its ``first`` place to before ``behind``."""
    places = np.arange(text.shape[1])
    inside = (places >= first[:, None]) & (places < behind[:, None])
    offsets = np.zeros(len(text) + 1, np.int32)
    np.cumsum(behind - first, out=offsets[1:])
    return pa.StringArray.from_buffers(len(text), pa.py_buffer(offsets), pa.py_buffer(text[inside]))


def _divided(numbers: NDArray[np.int32]) -> NDArray[np.int32]:
    quotient = numbers // np.int32(_LETTERS)
    return quotient + ((numbers < 0) & (quotient * _LETTERS != numbers))
