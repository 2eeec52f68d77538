"""Which elements of a side of a join have a partner, where the keys of the other side are known."""

from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkbeam.columns.vectors import Bools

Keys: TypeAlias = list[bytes] | Any  # An array of Arrow's.

_TRIED = 1 << 14
"""After so many rows it is known whether the look at them is worth it."""

_WORTH = 0.8
"""It is where no more than this part of them has a partner."""

_TIMES_THE_ROWS = 2
"""Arrow makes a table of all keys whenever it is asked; so many times as many as rows are few."""


class Partners:
    """Tells the rows of one task apart.

    It stops looking at elements in one window where most of them have a partner. Which ones it
    leaves out follows from these rows and their order alone, however they are divided into calls.

    Args:
        keys: those of the other side, binary and each once.
    """

    def __init__(self, keys: pa.Array) -> None:
        self._keys = keys
        self._seen = 0
        self._found = 0

    def among(self, keys: Keys, *, in_one_window: bool) -> Bools | None:
        """Which rows may have a partner; None for all of them.

        Args:
            keys: those of the next rows.
            in_one_window: their elements are in no other window.
        """
        untried = _TRIED - self._seen if in_one_window else 0
        if in_one_window and untried <= 0 and self._is_needless:
            return None
        found = self._among(keys)
        if untried > 0:
            tried = found[:untried]
            self._seen += len(tried)
            self._found += int(np.count_nonzero(tried))
            if self._seen == _TRIED and self._is_needless:
                found[untried:] = True
        return None if found.all() else found

    @property
    def _is_needless(self) -> bool:
        return self._found > _WORTH * self._seen

    def _among(self, keys: Keys) -> Bools:
        if isinstance(keys, pa.Array):
            if len(self._keys) <= _TIMES_THE_ROWS * len(keys):
                return np.array(pc.is_in(keys, self._keys))
            keys = keys.to_pylist()
        return np.fromiter(map(self._known.__contains__, keys), np.bool_, len(keys))

    @cached_property
    def _known(self) -> frozenset[bytes]:
        return frozenset(self._keys.to_pylist())
