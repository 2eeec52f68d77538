"""Assumptions about Beam's state sampler; see :mod:`sparkbeam.upstream.beam`."""

import _thread
import threading

from apache_beam.runners.worker import statesampler
from apache_beam.utils.counters import CounterFactory

_SAMPLE_MS = 10
"""Sampling period; Beam's own thread wakes up at least every 200 ms."""


class Sampler(statesampler.StateSampler):
    """Sampler of the current step of a bundle, which never delays its start or end.

    Beam's sampler waits for its thread to start, and to wake up at the end. Here, only the next
    bundle of the same processor waits for the latter, if necessary.

    Args:
        prefix: the prefix of counter names.
        counters: the counter factory.
    """

    def __init__(self, prefix: str, counters: CounterFactory) -> None:
        super().__init__(prefix, counters, sampling_period_ms=_SAMPLE_MS)
        self._running = _thread.allocate_lock()

    def start(self) -> None:
        """Start the sampling thread; without compiled code Beam has none."""
        self.tracked_thread = threading.current_thread()
        statesampler.set_current_tracker(self)
        self.started = True
        if statesampler.FAST_SAMPLER:
            self._running.acquire()
            _thread.start_new_thread(self.run, ())

    def run(self) -> None:
        """Run the sampling loop."""
        try:
            super().run()
        finally:
            self._running.release()

    def stop(self) -> None:
        """Stop sampling."""
        statesampler.set_current_tracker(None)
        self.finished = True

    def reset(self) -> None:
        """Prepare for the next bundle."""
        with self._running:
            super().reset()
