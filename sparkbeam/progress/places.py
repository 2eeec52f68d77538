"""Which of Spark's stages run those of a plan."""

import threading

from sparkbeam.wire.reports import Signal


class Places:
    """What tasks say of where they run; may be used from any thread.

    In streaming that is known of the last micro-batch alone, in batch of the last start.
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
