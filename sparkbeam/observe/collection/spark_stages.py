"""Spark's stages that have run those of a plan, with their shuffles, spills and skew."""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

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

T = TypeVar("T")


class SparkStages:
    """Spark's stages that run those of a plan, as reported by signals; thread-safe.

    For each stage of the plan these are those of the last micro-batch, or of the last start in
    batch, in which it had a task.

    Args:
        session: the Spark session; Connect sessions provide no figures.
    """

    def __init__(self, session: Any) -> None:
        self._session = session
        self._lock, self._asking = threading.Lock(), threading.Lock()
        self._ids: dict[str, tuple[int, frozenset[int]]] = {}
        self._known: dict[int, SparkStage] = {}

    def record_signal(self, signal: Signal) -> None:
        """Record a signal of a task."""
        if signal.spark_stage < 0:
            return
        with self._lock:
            number, found = self._ids.get(signal.stage, (signal.number, frozenset[int]()))
            if signal.number > number:
                found = frozenset()
            if signal.number >= number and signal.spark_stage not in found:
                self._ids[signal.stage] = signal.number, found | {signal.spark_stage}

    def by_stage(self) -> dict[str, list[SparkStage]]:
        """Return Spark's stages by stage id, except those that Spark has dropped.

        Spark is not asked again for a stage that is done.
        """
        with self._lock:
            by_stage = {stage: sorted(ids) for stage, (_, ids) in self._ids.items()}
        wanted = sorted({id for ids in by_stage.values() for id in ids})[-_MOST:]
        with self._asking:  # Signals do not wait for Spark.
            known = {id: self._known[id] for id in wanted if id in self._known}
            if is_classic(self._session):
                for id in wanted:
                    if id not in known or not known[id].is_done:
                        with suppress(Exception):  # The session may have been stopped.
                            known[id] = SparkStage(id, **stage_data(self._session, id))
            self._known = known
        return {stage: [known[id] for id in ids if id in known] for stage, ids in by_stage.items()}

    def plans(self) -> list[str]:
        """Return Spark's plans of the last micro-batch or batch start that Spark still has."""
        return self._of_newest(executed_plans)

    def graphs(self) -> list[list[PlanNode]]:
        """Return the operators of these plans."""
        return self._of_newest(executed_graphs)

    def _of_newest(self, plans_of: Callable[[Any, frozenset[int]], list[T]]) -> list[T]:
        with self._lock:
            last = max((number for number, _ in self._ids.values()), default=0)
            newest = [ids for number, ids in self._ids.values() if number == last]
        if is_classic(self._session):
            with suppress(Exception):  # The session may have been stopped.
                return plans_of(self._session, frozenset[int]().union(*newest))
        return []
