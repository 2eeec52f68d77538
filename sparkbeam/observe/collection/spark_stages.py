"""Spark's stages that have run those of a plan, with their shuffles, spills and skew."""

import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from sparkbeam.observe.figures.summary import SparkStage
from sparkbeam.upstream.spark import (
    PlanNode,
    executed_graphs,
    executed_plans,
    is_classic,
    stage_data,
)
from sparkbeam.wire.reports import Signal

_MOST = 500


class SparkStageIds:
    """The Spark stages of tasks, as reported by signals; thread-safe.

    For each stage these are those of the last micro-batch, or of the last start in batch, in which
    it had a task.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[str, tuple[int, frozenset[int]]] = {}

    def record_signal(self, signal: Signal) -> None:
        """Record a signal of a task."""
        if signal.spark_stage < 0:
            return
        with self._lock:
            number, found = self._found.get(signal.stage, (signal.number, frozenset[int]()))
            if signal.number > number:
                found = frozenset()
            if signal.number >= number and signal.spark_stage not in found:
                self._found[signal.stage] = signal.number, found | {signal.spark_stage}

    def by_stage(self) -> dict[str, tuple[int, ...]]:
        """Return the ids of Spark's stages, by stage id."""
        with self._lock:
            return {id: tuple(sorted(found)) for id, (_, found) in self._found.items()}

    def newest(self) -> set[int]:
        """Return the ids of Spark's stages in the last micro-batch or batch start."""
        with self._lock:
            last = max((number for number, _ in self._found.values()), default=0)
            return {id for number, found in self._found.values() if number == last for id in found}


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
