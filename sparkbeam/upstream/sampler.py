"""What sparkbeam assumes of Beam's state sampler; see :mod:`sparkbeam.upstream.beam`."""

import threading

from apache_beam.runners.worker import statesampler
from apache_beam.utils.counters import CounterFactory

_SAMPLE_MS = 10
"""Beam's own thread wakes up each 200 ms at worst."""


class Sampler(statesampler.StateSampler):
    """Knows the step that a bundle is at, and does not hold up its end.

    Beam's waits there for its thread to wake up. Here the next bundle of the same processor does
    so, if it comes that early.

    Args:
        prefix: of the names of its counters.
        counters: makes them.
    """

    def __init__(self, prefix: str, counters: CounterFactory) -> None:
        super().__init__(prefix, counters, sampling_period_ms=_SAMPLE_MS)
        self._has_ended = threading.Event()
        self._has_ended.set()

    def start(self) -> None:
        """Starts the thread, if there is one: without compiled code Beam has none."""
        if statesampler.FAST_SAMPLER:
            self._has_ended.clear()
        super().start()

    def run(self) -> None:
        """What the thread does."""
        try:
            super().run()
        finally:
            self._has_ended.set()

    def stop(self) -> None:
        """Takes no more samples."""
        statesampler.set_current_tracker(None)
        self.finished = True

    def reset(self) -> None:
        """Makes it ready for the next bundle."""
        self._has_ended.wait()
        super().reset()
