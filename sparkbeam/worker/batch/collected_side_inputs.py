"""Side inputs that the driver has collected: small ones in memory, large ones in a file.

A worker reads the parts that a DoFn needs and keeps no more than a page cache.
"""

import os
import sqlite3
import threading
from collections.abc import Iterable

from sparkbeam.wire.side_content import SELECT, SideInputData
from sparkbeam.worker.side_inputs import SideInputs


class CollectedSideInputs(SideInputs):
    """The side inputs of a stage whose content the driver has collected."""

    def __init__(self, data: dict[tuple[str, str], SideInputData]) -> None:
        self._data = data

    def _runs(self, transform_id: str, name: str, key: bytes) -> Iterable[bytes]:
        data = self._data[transform_id, name]
        if data.path is None:
            return data.runs.get(key, ())
        return (run for (run,) in _connect(data.path).execute(SELECT, (key,)))


_connections = threading.local()


def _connect(path: str) -> sqlite3.Connection:
    opened: dict[str, sqlite3.Connection] = _connections.__dict__.setdefault("opened", {})
    if path not in opened:
        found = path
        if not os.path.isabs(path):
            from pyspark import SparkFiles

            found = SparkFiles.get(path)
        opened[path] = sqlite3.connect(f"file:{found}?mode=ro&immutable=1", uri=True)
    return opened[path]
