"""Output of user code in a Spark worker, line by line, with the label of its step."""

import io
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO, TextIO

from pyspark import TaskContext

from sparkbeam.common.display_text import printable
from sparkbeam.wire.output_lines import STDERR, STDOUT, OutputLine, OutputSpec, Written
from sparkbeam.worker import logs
from sparkbeam.worker.output_socket import OUTPUT_SOCKET


class StepStream(io.TextIOBase):
    """Replacement of a standard stream of the worker while tasks run."""

    def __init__(self, name: str, stream: TextIO) -> None:
        self.caught = False
        self._name = name
        self._stream = stream
        self._unfinished: dict[int, str] = {}

    def write(self, text: str) -> int:
        if not self.caught:
            return self._stream.write(text)
        thread = threading.get_ident()
        *lines, rest = (self._unfinished.pop(thread, "") + text).split("\n")
        if rest:
            self._unfinished[thread] = rest
        for line in lines:
            self._emit(line)
        return len(text)

    def flush(self) -> None:
        self._stream.flush()

    def complete(self) -> None:
        """Take unfinished lines as complete."""
        while self._unfinished:
            self._emit(self._unfinished.popitem()[1])

    def fileno(self) -> int:
        return self._stream.fileno()

    def isatty(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """That of the stream that it stands for."""
        return self._stream.encoding

    @property
    def buffer(self) -> BinaryIO:
        """The bytes below the stream that it stands for, which nobody catches."""
        return self._stream.buffer

    def _emit(self, text: str) -> None:
        text = printable(text)
        if not OUTPUT_SOCKET.write(OutputLine(self._name, logs.step(), text)):
            self._stream.write(f"{text}\n")


@contextmanager
def redirected(spec: OutputSpec, hide: Callable[[str], str] = str) -> Iterator[None]:
    """Capture output while a task runs; do nothing outside of Spark's workers."""
    logs.install(spec.levels, hide)
    if TaskContext.get() is None:
        yield
        return
    OUTPUT_SOCKET.open(spec.relay, hide)
    for name in (STDOUT, STDERR):
        # Spark may have put a stream of its own in the place of ours.
        if not isinstance(getattr(sys, name), StepStream):
            setattr(sys, name, StepStream(name, getattr(sys, name)))
    for stream in _streams():
        stream.caught = True
    try:
        yield
    finally:
        for stream in _streams():
            stream.complete()
            stream.caught = False
        OUTPUT_SOCKET.close()


def take_written() -> Written:
    """Return the output that travels with the report of the task."""
    for stream in _streams():
        stream.complete()
    return OUTPUT_SOCKET.take_written()


def _streams() -> list[StepStream]:
    return [stream for stream in (sys.stdout, sys.stderr) if isinstance(stream, StepStream)]
