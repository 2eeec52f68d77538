"""Spark stages that run the stages of a plan."""

import threading

from sparkbeam.wire.reports import Signal


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
