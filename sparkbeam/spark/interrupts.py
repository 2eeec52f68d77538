"""What Ctrl-C does: the pipeline is cancelled, and the program ends with one line.

A program's main thread gets the interrupt as a ``KeyboardInterrupt``, as always in Python, and may
catch it. What is different:

- PySpark's own handler cancels all jobs of a session, which fails queries with a thousand lines.
  While the program starts or waits for a pipeline, Python's own handler stands in its place.
- The run is cancelled and has ended before the program goes on to its end: a thread that is in
  the middle of its work when Python goes away makes it abort.
- Where nobody catches it, the interrupt is told in one line instead of a traceback.
"""

import atexit
import gc
import io
import logging
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType
from typing import Any

from sparkbeam.spark import jvm_output

LEAVE_SECONDS = 10.0
"""How long an interrupted or ending program waits for the end of its run."""

_PATIENCE_SECONDS = 2.0
"""For so long a second interrupt changes nothing; after that the program waits no more."""

_PYSPARK = "pyspark.core.context"
_CANCELLED = "sparkbeam_cancelled"
"""The attribute of an interrupt that has cancelled a run."""

_told: list[bool] = []


@contextmanager
def interruptible(stop: Callable[[], None] = lambda: None) -> Iterator[None]:
    """For the time in which the program's thread starts a pipeline or waits for one.

    Args:
        stop: cancels the run and waits for its end, :data:`LEAVE_SECONDS` at most.

    Raises:
        KeyboardInterrupt: the user has interrupted the program; the run is cancelled by then.
    """
    jvm_output.hush(False)
    with python_handler(), _without_py4j():
        try:
            yield
        except KeyboardInterrupt as interrupt:
            jvm_output.hush(True)
            with patience():
                stop()
            _tell_in_one_line(interrupt)
            raise


@contextmanager
def python_handler() -> Iterator[None]:
    """Python's own handler of interrupts; afterwards the one that was there before."""
    usual = signal.getsignal(signal.SIGINT)
    ours = _is_main() and (
        usual is signal.default_int_handler or getattr(usual, "__module__", None) == _PYSPARK
    )
    if ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGINT, usual)


@contextmanager
def patience() -> Iterator[None]:
    """A time in which the program ends: only who insists gets an interrupt through."""
    if not _is_main():
        yield
        return
    start = time.monotonic()

    def handler(number: int, frame: FrameType | None) -> None:
        if time.monotonic() - start > _PATIENCE_SECONDS:
            raise KeyboardInterrupt

    usual = signal.signal(signal.SIGINT, handler)
    try:
        yield
    except KeyboardInterrupt:
        return
    finally:
        signal.signal(signal.SIGINT, usual)


class Leaving:
    """What is still to be done where a program ends without having waited for its run.

    Args:
        do: cancels the run and waits for its end, :data:`LEAVE_SECONDS` at most.
    """

    def __init__(self, do: Callable[[], None]) -> None:
        self._do = do
        # What Python calls last to be called first: only then the folders of the run may go,
        # which weakref removes in a handler that is there from its first finalizer on.
        weakref.finalize(self, int)
        atexit.register(self._leave)

    def change(self, do: Callable[[], None]) -> None:
        """Does something else instead."""
        self._do = do

    def cancel(self) -> None:
        """Nothing is left to be done."""
        atexit.unregister(self._leave)

    def _leave(self) -> None:
        with patience():
            self._do()


@contextmanager
def _without_py4j() -> Iterator[None]:
    """Keeps py4j from logging the interrupt of a call."""
    root = logging.getLogger()
    root.addFilter(_is_no_interrupt)
    try:
        yield
    finally:
        root.removeFilter(_is_no_interrupt)


def _is_no_interrupt(record: logging.LogRecord) -> bool:
    return record.exc_info is None or record.exc_info[0] is not KeyboardInterrupt


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()


def _tell_in_one_line(interrupt: KeyboardInterrupt) -> None:
    """Print no traceback of an interrupt that has cancelled a run, if nobody catches it."""
    vars(interrupt)[_CANCELLED] = True
    if _told:
        return
    usual: Any = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if _CANCELLED in vars(error):
            print("Interrupted: the pipeline was cancelled.", file=sys.stderr)
            _leave_garbage()
        else:
            usual(kind, error, trace)

    sys.excepthook = hook
    _told.append(True)


def _leave_garbage() -> None:
    """Python's end no longer looks for garbage in what there is, which takes it half a second.

    Beam and Spark are hundreds of thousands of objects. What is written to files in them is kept.
    """
    gc.unfreeze()
    for thing in gc.get_objects():
        if type(thing) in (io.BufferedWriter, io.TextIOWrapper):
            with suppress(OSError, ValueError):
                thing.flush()
    gc.freeze()
