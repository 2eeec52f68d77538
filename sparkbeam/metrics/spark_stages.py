"""What Spark knows of its own stages that have run those of a plan: shuffles, spills, skew."""

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
    """A stage of Spark, which is what runs between two shuffles; the last attempt at it.

    Attributes:
        id: its number on the pages of Spark's UI.
        is_done: all its tasks have succeeded.
        tasks: how many it has.
        failed_tasks: attempts at them that have failed.
        read_bytes: what it has read of shuffles.
        written_bytes: what it has written to one.
        spilled_memory_bytes: what did not fit into memory, as it was there.
        spilled_disk_bytes: the same, as it was written.
        largest_bytes: what the task with the most has read of shuffles.
        median_bytes: the same of the one in the middle.
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
        """How many times more the task with the most has read than the one in the middle."""
        return self.largest_bytes / self.median_bytes if self.median_bytes else None


class SparkStages:
    """Asks Spark for its stages; of those that are done once. May be used from any thread.

    Args:
        session: the Spark session; one over Connect tells nothing.
    """

    def __init__(self, session: Any) -> None:
        self._session = session
        self._lock = threading.Lock()
        self._found: dict[int, SparkStage] = {}

    def get(self, ids: Iterable[int]) -> dict[int, SparkStage]:
        """Those of some numbers, but for what Spark has forgotten."""
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
        """Spark's plans of the queries that stages belong to, but for what Spark has forgotten."""
        if is_classic(self._session):
            with suppress(Exception):  # The session may have been stopped.
                return executed_plans(self._session, frozenset(ids))
        return []

    def graphs(self, ids: Iterable[int]) -> list[list[PlanNode]]:
        """The operators of the same plans."""
        if is_classic(self._session):
            with suppress(Exception):  # The session may have been stopped.
                return executed_graphs(self._session, frozenset(ids))
        return []
