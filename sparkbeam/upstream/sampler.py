"""Assumptions about Beam's state sampler; see :mod:`sparkbeam.upstream.beam`."""

import _thread
import threading

from apache_beam.runners.worker import statesampler
from apache_beam.utils.counters import CounterFactory

_SAMPLE_MS = 10
"""Sampling period; Beam's own thread wakes up at least every 200 ms."""


class Sampler(statesampler.StateSampler):
    """Sampler of the current step of a bundle, which never delays its start or end.

    Beam's sampler waits for its thread to start, and to wake up at the end. Here, the thread goes
    on with the next bundle of the same processor if that has begun until then.

    Args:
        prefix: the prefix of counter names.
    """

    def __init__(self, prefix: str, counters: CounterFactory) -> None:
        super().__init__(prefix, counters, sampling_period_ms=_SAMPLE_MS)
        self._changing = _thread.allocate_lock()
        self._is_running = False

    def start(self) -> None:
        """Start the sampling thread; without compiled code Beam has none."""
        self.tracked_thread = threading.current_thread()
        statesampler.set_current_tracker(self)
        self.started = True
        with self._changing:
            self.finished = False
            is_running, self._is_running = self._is_running, statesampler.FAST_SAMPLER
        if self._is_running and not is_running:
            _thread.start_new_thread(self.run, ())

    def run(self) -> None:
        """Run the sampling loop until no bundle is left."""
        while self._is_running:
            super().run()
            with self._changing:
                self._is_running = not self.finished

    def stop(self) -> None:
        """Stop sampling."""
        statesampler.set_current_tracker(None)
        self.finished = True

    def reset(self) -> None:
        """Prepare for the next bundle."""
        super().reset()
        self.finished = True  # Until that starts: there may be none.
