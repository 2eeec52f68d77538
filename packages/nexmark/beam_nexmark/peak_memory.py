"""Memory use of a run."""

import threading

import psutil

_SAMPLE_SECONDS = 0.2


class PeakMemory:
    """The peak memory of this process and its children together, in bytes.

    Sampled five times a second within the ``with`` block. On Linux shared memory counts once (PSS);
    elsewhere for each process (RSS). Processes on other machines do not count.
    """

    def __init__(self) -> None:
        self.bytes = 0
        self._process = psutil.Process()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while True:
            processes = (self._process, *self._process.children(recursive=True))
            self.bytes = max(self.bytes, sum(map(resident, processes)))
            if self._stop.wait(_SAMPLE_SECONDS):
                return


def resident(process: psutil.Process) -> int:
    """Return the bytes of a process, with its share of shared memory on Linux; 0 if ended."""
    try:
        memory = process.memory_full_info()
    except psutil.Error:
        return 0
    return int(getattr(memory, "pss", memory.rss))
