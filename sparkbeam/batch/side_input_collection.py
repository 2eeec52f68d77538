"""Side inputs on the driver: collected once, small ones in memory, large ones in a file."""

import functools
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sparkbeam.common.temporary_folders import RunFolder, served_folder
from sparkbeam.plan.model import SideInput
from sparkbeam.spark import session as sessions
from sparkbeam.spark.capabilities import ship
from sparkbeam.spark.collect import collected
from sparkbeam.wire.rows import METRICS_TAG
from sparkbeam.wire.side_content import CREATE_INDEX, CREATE_TABLE, INSERT, SideInputData

SMALL_BYTES = 8 << 20
"""Ports of up to this many encoded bytes are sent to the workers in memory."""

_SMALLER = "It holds a side input of more than 8 MiB: make it smaller, or join with a CoGroupByKey."


class SideInputStore:
    """Rows of the ports that feed side inputs, kept until the end of the pipeline.

    Args:
        session: ships files to workers that do not share the driver's.
    """

    def __init__(self, session: Any) -> None:
        self._session = session
        self._ports: dict[int, _PortContent] = {}
        self._files: dict[tuple[int, ...], str] = {}

    @functools.cached_property
    def _folder(self) -> RunFolder:
        return RunFolder("side")

    def __contains__(self, tag: int) -> bool:
        return tag in self._ports

    def collect(self, rows: Any, tags: Iterable[int]) -> list[bytes]:
        """Run the plan of ``rows`` and keep the rows of the ports ``tags``.

        Returns:
            The reports among the rows.
        """
        reports = []
        for tag in tags:
            self._ports[tag] = _PortContent(Path(self._folder.name) / f"port-{tag}.db")
        # In one job. A job per partition, as in toLocalIterator, could see the outputs of two
        # attempts of an earlier stage.
        for batch in collected(rows).to_batches():
            for tag, key, order, value in zip(
                *(column.to_pylist() for column in batch.columns), strict=True
            ):
                if tag == METRICS_TAG:
                    reports.append(value)
                else:
                    self._ports[tag].append(key, order, value)
        return reports

    def data(self, side_input: SideInput) -> SideInputData:
        """Return the side input as sent to the workers."""
        ports = [self._ports[tag] for tag in side_input.sources]
        if sum(port.bytes for port in ports) <= SMALL_BYTES:
            return SideInputData.of_rows(row for port in ports for row in port.rows())
        if side_input.sources not in self._files:
            self._files[side_input.sources] = self._ship(ports, side_input.sources)
        return SideInputData(path=self._files[side_input.sources])

    def _ship(self, ports: "list[_PortContent]", sources: tuple[int, ...]) -> str:
        name = f"{Path(self._folder.name).name}-{'-'.join(map(str, sources))}.db"
        shared = sessions.is_local(self._session)
        path = Path(self._folder.name if shared else served_folder().name) / name
        with sqlite3.connect(path) as database:
            database.execute(CREATE_TABLE)
            for port in ports:
                database.executemany(INSERT, port.rows())
            database.execute(CREATE_INDEX)
        database.close()
        if shared:
            return str(path)
        ship(self._session, str(path), _SMALLER)
        return name

    def close(self) -> None:
        """Remove the files except those served by Spark."""
        if "_folder" in vars(self):
            self._folder.cleanup()


class _PortContent:
    """Rows of one port; in memory until they are many."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._memory: list[tuple[bytes, int, bytes]] = []
        self._database: sqlite3.Connection | None = None
        self.bytes = 0

    def append(self, key: bytes, order: int, run: bytes) -> None:
        self._memory.append((key, order, run))
        self.bytes += len(run) + len(key)
        if self.bytes > SMALL_BYTES and len(self._memory) >= 1000:
            self._spill()

    def _spill(self) -> None:
        if self._database is None:
            self._database = sqlite3.connect(self._path, check_same_thread=False)
            self._database.execute(CREATE_TABLE)
        self._database.executemany(INSERT, self._memory)
        self._memory = []

    def rows(self) -> Iterable[tuple[bytes, int, bytes]]:
        if self._database is not None:
            yield from self._database.execute("SELECT key, ord, run FROM runs")
        yield from self._memory
