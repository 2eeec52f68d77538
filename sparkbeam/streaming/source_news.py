"""News of Spark's sources, for which the tick source waits.

Spark asks its sources only as it plans a micro-batch, after the tick source has decided that there
is one. So the tick source asks them itself, from its process on the driver.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from sparkbeam.plan.source_hooks import SourceClient

Connect = Callable[[], SourceClient]
"""Connects to a source."""

_RESOLUTION_NS = 10_000_000
"""Changes of a folder that are further apart have different times."""

_LEAST_SECONDS, _MOST_SECONDS = 0.02, 0.5
_SHARE = 0.01
"""Largest part of a core that questions take."""


class FolderChanges(SourceClient):
    """A local folder, of which each new file changes the time of the folder that it is in."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._times: Mapping[str, int] = {}

    def ends(self, offsets: Mapping[str, int]) -> Mapping[str, int] | None:
        for _ in range(2):
            began = time.time_ns()
            if not self._times or any(_time(each) != at for each, at in self._times.items()):
                folders = (folder for folder, *_ in os.walk(self._path, followlinks=True))
                self._times = {folder: _time(folder) for folder in folders}
            # Later changes, also those since a folder was listed, may not be seen by its time.
            if began - max(self._times.values(), default=0) >= _RESOLUTION_NS:
                return self._times or None
            self._times = {}
            time.sleep(_RESOLUTION_NS / 10**9)
        return {"": began}


def _time(folder: str) -> int:
    try:
        return os.stat(folder).st_mtime_ns
    except FileNotFoundError:
        return 0


class SourceNews:
    """News of all sources of a query.

    Args:
        connects: connect to the sources, in the order of the query; none if one cannot be asked.

    Attributes:
        pause: the seconds until the next question, such that questions take little of a core.
    """

    def __init__(self, connects: Sequence[Connect]) -> None:
        self.connects = connects
        self.pause = _MOST_SECONDS
        self._clients: list[SourceClient] = []

    def now(self, offsets: Mapping[int, Mapping[str, Any]]) -> object:
        """Return a value that changes with each new row of a source; None if that is unknown.

        After an error no source is asked again, as each time could delay a micro-batch.

        Args:
            offsets: of the partitions of sources, by the number of the source in the query.
        """
        began = time.process_time()
        try:
            self._clients = self._clients or [connect() for connect in self.connects]
            found = [each.ends(offsets.get(at, {})) for at, each in enumerate(self._clients)]
        except Exception:
            for each in self._clients:
                with suppress(Exception):  # It may be what has failed.
                    each.close()
            found, self.connects, self._clients = [], (), []
        used = (time.process_time() - began) / _SHARE if found else _MOST_SECONDS
        self.pause = min(max(used, _LEAST_SECONDS), _MOST_SECONDS)
        return None if None in found else found or None
