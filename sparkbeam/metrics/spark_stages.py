"""Spark's figures of the stages that have run a plan: shuffles, spills, skew."""

import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sparkbeam.upstream.spark import (
    PlanNode,
    executed_graphs,
    executed_plans,
    is_classic,
    stage_data,
)

_MOST = 500


@dataclass(frozen=True)
class SparkStage:
    """A stage of Spark, which runs between two shuffles; its last attempt.

    Attributes:
        id: its number in Spark's UI.
        is_done: whether all its tasks have succeeded.
        tasks: the number of tasks.
        failed_tasks: the number of failed task attempts.
        read_bytes: the bytes read from shuffles.
        written_bytes: the bytes written to a shuffle.
        spilled_memory_bytes: the in-memory size of spilled data.
        spilled_disk_bytes: its size on disk.
        largest_bytes: the shuffle bytes read by the largest task.
        median_bytes: the shuffle bytes read by the median task.
    """

    id: int
    is_done: bool = False
    tasks: int = 0
    failed_tasks: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    spilled_memory_bytes: int = 0
    spilled_disk_bytes: int = 0
    largest_bytes: int = 0
    median_bytes: int = 0

    @property
    def skew(self) -> float | None:
        """The ratio of the largest task's shuffle read to the median task's."""
        return self.largest_bytes / self.median_bytes if self.median_bytes else None


class SparkStages:
    """Client of Spark's stage figures, cached for finished stages; thread-safe.

    Args:
        session: the Spark session; Connect sessions provide no figures.
    """

    def __init__(self, session: Any) -> None:
        self._session = session
        self._lock = threading.Lock()
        self._found: dict[int, SparkStage] = {}

    def get(self, ids: Iterable[int]) -> dict[int, SparkStage]:
        """Return the stages with some ids, except those that Spark has dropped."""
        wanted = sorted(set(ids))[-_MOST:]
        with self._lock:
            known = {id: self._found[id] for id in wanted if id in self._found}
            if is_classic(self._session):
                for id in wanted:
                    if id not in known or not known[id].is_done:
                        with suppress(Exception):  # The session may have been stopped.
                            known[id] = SparkStage(id, **stage_data(self._session, id))
            self._found = known
            return known

    def plans(self, ids: Iterable[int]) -> list[str]:
        """Return Spark's plans of the queries that contain stages and that Spark still has."""
        if is_classic(self._session):
            with suppress(Exception):  # The session may have been stopped.
                return executed_plans(self._session, frozenset(ids))
        return []

    def graphs(self, ids: Iterable[int]) -> list[list[PlanNode]]:
        """Return the operators of these plans."""
        if is_classic(self._session):
            with suppress(Exception):  # The session may have been stopped.
                return executed_graphs(self._session, frozenset(ids))
        return []
