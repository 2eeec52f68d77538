"""Filter for elements of a join side that have a partner, given the keys of the other side."""

from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkbeam.columns.vectors import Bools

Keys: TypeAlias = list[bytes] | Any  # An array of Arrow's.

_TRIED = 1 << 14
"""Number of rows after which the benefit of the filter is known."""

_WORTH = 0.8
"""Maximum fraction of rows with a partner for the filter to pay off."""

_TIMES_THE_ROWS = 2
"""Maximum ratio of keys to rows for a lookup, for which Arrow makes a table of all keys."""


class Partners:
    """Filter for the rows of one task.

    It stops testing elements in one window if most of them have a partner. The rows that it
    leaves out depend on these rows and their order alone, however they are divided into calls.

    Args:
        keys: those of the other side, binary and each once.
    """

    def __init__(self, keys: pa.Array) -> None:
        self._keys = keys
        self._seen = 0
        self._found = 0

    def among(self, keys: Keys, *, in_one_window: bool) -> Bools | None:
        """Return the mask of rows that may have a partner; None for all rows."""
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
