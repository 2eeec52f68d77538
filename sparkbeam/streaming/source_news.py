"""News of Spark's sources, for which the tick source waits.

Spark asks its sources only as it plans a micro-batch, after the tick source has decided that there
is one. So the tick source looks at them itself, from its process on the driver.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sparkbeam.plan.source_hooks import SourceClient, SourceHooks

Look = Callable[[Mapping[str, Any]], object]
"""Takes the offsets of a source by partition; returns a value that changes with each new row.

None if that is unknown.
"""

_RESOLUTION_NS = 10_000_000
"""Changes of a folder that are further apart have different times."""

_LEAST_SECONDS, _MOST_SECONDS = 0.02, 0.5
_SHARE = 0.01
"""Largest part of a core that looks take."""


class FolderChanges:
    """Look at a local folder: each new file changes the time of the folder that it is in."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._times: Mapping[str, int] = {}

    def __call__(self, offsets: Mapping[str, Any]) -> object:
        for _ in range(2):
            if not self._times or any(_time(each) != at for each, at in self._times.items()):
                folders = (folder for folder, *_ in os.walk(self._path, followlinks=True))
                self._times = {folder: _time(folder) for folder in folders}
            age = time.time_ns() - max(self._times.values(), default=0)
            if not 0 <= age < _RESOLUTION_NS:
                return self._times or None
            self._times = {}
            time.sleep(_RESOLUTION_NS / 10**9)
        return time.time_ns()


def _time(folder: str) -> int:
    try:
        return os.stat(folder).st_mtime_ns
    except FileNotFoundError:
        return 0


@dataclass
class PartitionEnds:
    """Look at the ends of a source's partitions, over a connection that it opens."""

    hooks: SourceHooks

    def __call__(self, offsets: Mapping[str, Any]) -> object:
        return self._client.ends(offsets)

    @cached_property
    def _client(self) -> SourceClient:
        return self.hooks.connect()


class SourceNews:
    """News of all sources of a query.

    Args:
        looks: at the sources, in the order of the query; none if one cannot be looked at.

    Attributes:
        pause: the seconds until the next look, such that looks take little of a core.
    """

    def __init__(self, looks: Sequence[Look] = ()) -> None:
        self.looks = looks
        self.pause = _MOST_SECONDS

    def now(self, offsets: Mapping[int, Mapping[str, Any]]) -> object:
        """Return a value that changes with each new row of a source; None if that is unknown.

        A source that does not answer is not asked again, as each time would delay a micro-batch.

        Args:
            offsets: of the partitions of sources, by the number of the source in the query.
        """
        began = time.process_time()
        try:
            found = [look(offsets.get(number, {})) for number, look in enumerate(self.looks)]
        except Exception:
            found, self.looks = [], ()
        used = (time.process_time() - began) / _SHARE if found else _MOST_SECONDS
        self.pause = min(max(used, _LEAST_SECONDS), _MOST_SECONDS)
        return None if None in found else found or None
