"""Handling of Ctrl-C and SIGTERM: cancel the pipeline and end the program with one line.

The main thread gets a ``KeyboardInterrupt``, as always in Python, and may catch it. Differences:

- PySpark's handler cancels all jobs of a session, which fails queries with a thousand lines.
  It is replaced by Python's handler while the program starts or waits for a pipeline.
- The run is cancelled and has ended before the program continues: Python aborts if a thread is
  still working at exit.
- An uncaught interrupt is printed as one line instead of a traceback.

SIGTERM and SIGHUP, which would end the process at once, become a ``SystemExit`` of the main thread
with the exit code of shells, 128 and the number of the signal.
"""

import atexit
import gc
import io
import logging
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from types import FrameType, TracebackType
from typing import Any

from sparkbeam.spark import jvm_output

LEAVE_SECONDS = 10.0
"""Longest wait of an interrupted or ending program for the end of its run."""

_PATIENCE_SECONDS = 2.0
"""Interval in which a second interrupt is ignored; later the program stops waiting."""

_PYSPARK = "pyspark.core.context"
_CANCELLED = "sparkbeam_cancelled"
"""The attribute of an interrupt that has cancelled a run."""

_SIGNALLED = 128
"""Offset of exit codes from the number of the signal, as in shells."""

_told: list[bool] = []
_ended_by: list[int] = []
"""The signals to end that the program has got."""

_patient = threading.Event()
"""Set while the program ends in order."""


class _Terminated(SystemExit):
    """End of the program by a signal."""

    def __init__(self, number: int) -> None:
        super().__init__(_SIGNALLED + number)
        self.signal = signal.Signals(number).name


@contextmanager
def interruptible(stop: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Make the start of a pipeline, or the wait for it, interruptible.

    Args:
        stop: cancels the run and waits for its end, :data:`LEAVE_SECONDS` at most.

    Raises:
        KeyboardInterrupt: the user interrupted the program; the run is cancelled by then.
        SystemExit: likewise, by SIGTERM or SIGHUP.
    """
    jvm_output.hush(False)
    with python_handler(), _without_py4j():
        try:
            yield
        except (KeyboardInterrupt, _Terminated) as interrupt:
            jvm_output.hush(True)
            with patience():
                stop()
            if isinstance(interrupt, KeyboardInterrupt):
                _tell_in_one_line(interrupt)
            else:
                print(f"Ended by {interrupt.signal}: the pipeline was cancelled.", file=sys.stderr)
            raise


def end_in_order() -> None:
    """Make SIGTERM and SIGHUP a ``SystemExit``, unless the program handles or ignores them."""
    for number in (signal.SIGTERM, signal.SIGHUP) if _is_main() else ():
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, partial(_terminate, os.getpid()))


def _terminate(process: int, number: int, frame: FrameType | None) -> None:
    if os.getpid() != process:
        # A fork of the program ends as it would without its pipeline.
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    elif not _patient.is_set():
        _ended_by.append(number)
        raise _Terminated(number)


def check_end() -> None:
    """Raise the ``SystemExit`` of a signal again, if Python has ignored it, as in a destructor."""
    if _ended_by:
        raise _Terminated(_ended_by[0])


@contextmanager
def python_handler() -> Iterator[None]:
    """Install Python's handler of interrupts temporarily."""
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
    """Ignore early interrupts while the program ends; a later one aborts the wait.

    Other signals to end it are ignored.
    """
    if not _is_main():
        yield
        return
    start = time.monotonic()

    def handler(number: int, frame: FrameType | None) -> None:
        if time.monotonic() - start > _PATIENCE_SECONDS:
            raise KeyboardInterrupt

    usual = signal.signal(signal.SIGINT, handler)
    _patient.set()
    try:
        yield
    except KeyboardInterrupt:
        return
    finally:
        _patient.clear()
        signal.signal(signal.SIGINT, usual)


class Leaving:
    """Cleanup for a program that ends without waiting for its run.

    Args:
        do: cancels the run and waits for its end, :data:`LEAVE_SECONDS` at most.
    """

    def __init__(self, do: Callable[[], None]) -> None:
        self._do = do
        # atexit runs handlers in reverse order. The first finalizer registers weakref's handler,
        # which removes the run's folders: it must be registered before ours, to run after it.
        weakref.finalize(self, int)
        atexit.register(self._leave)

    def change(self, do: Callable[[], None]) -> None:
        """Replace the cleanup."""
        self._do = do

    def cancel(self) -> None:
        """Remove the cleanup."""
        atexit.unregister(self._leave)

    def _leave(self) -> None:
        with patience():
            self._do()


@contextmanager
def _without_py4j() -> Iterator[None]:
    """Keep py4j from logging the interrupt of a call."""
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
    """Exclude live objects from garbage collection at exit, which would take half a second.

    Beam and Spark have hundreds of thousands of objects. Buffered files are flushed.
    """
    gc.unfreeze()
    for thing in gc.get_objects():
        if type(thing) in (io.BufferedWriter, io.TextIOWrapper):
            with suppress(OSError, ValueError):
                thing.flush()
    gc.freeze()
