"""What sparkbeam assumes of Beam's state sampler; see :mod:`sparkbeam.upstream.beam`."""

import _thread
import threading

from apache_beam.runners.worker import statesampler
from apache_beam.utils.counters import CounterFactory

_SAMPLE_MS = 10
"""Beam's own thread wakes up each 200 ms at worst."""


class Sampler(statesampler.StateSampler):
    """Knows the step that a bundle is at, and holds up neither its beginning nor its end.

    Beam's waits for its thread to begin, and at the end for it to wake up. Here the next bundle of
    the same processor does the latter, if it comes that early.

    Args:
        prefix: of the names of its counters.
        counters: makes them.
    """

    def __init__(self, prefix: str, counters: CounterFactory) -> None:
        super().__init__(prefix, counters, sampling_period_ms=_SAMPLE_MS)
        self._running = _thread.allocate_lock()

    def start(self) -> None:
        """Starts the thread, if there is one: without compiled code Beam has none."""
        self.tracked_thread = threading.current_thread()
        statesampler.set_current_tracker(self)
        self.started = True
        if statesampler.FAST_SAMPLER:
            self._running.acquire()
            _thread.start_new_thread(self.run, ())

    def run(self) -> None:
        """What the thread does."""
        try:
            super().run()
        finally:
            self._running.release()

    def stop(self) -> None:
        """Takes no more samples."""
        statesampler.set_current_tracker(None)
        self.finished = True

    def reset(self) -> None:
        """Makes it ready for the next bundle."""
        with self._running:
            super().reset()
