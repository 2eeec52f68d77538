"""Which of Spark's stages run those of a plan."""

import threading

from sparkbeam.wire.reports import Signal


class Places:
    """What tasks say of where they run; may be used from any thread.

    Each stage is known at the last micro-batch, or in batch the last start, that it had a task in.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[str, tuple[int, frozenset[int]]] = {}

    def note(self, signal: Signal) -> None:
        """Takes in a signal of a task."""
        if signal.spark_stage < 0:
            return
        with self._lock:
            number, found = self._found.get(signal.stage, (signal.number, frozenset[int]()))
            if signal.number > number:
                found = frozenset()
            if signal.number >= number and signal.spark_stage not in found:
                self._found[signal.stage] = signal.number, found | {signal.spark_stage}

    def by_stage(self) -> dict[str, tuple[int, ...]]:
        """The numbers of Spark's stages, by the ids of those of the plan."""
        with self._lock:
            return {id: tuple(sorted(found)) for id, (_, found) in self._found.items()}

    def newest(self) -> set[int]:
        """The numbers of Spark's stages in the last micro-batch, or in batch of the last start."""
        with self._lock:
            last = max((number for number, _ in self._found.values()), default=0)
            return {id for number, found in self._found.values() if number == last for id in found}
