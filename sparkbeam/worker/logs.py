"""Log records of the user's code, with the label of their step."""

import logging
import sys
import threading
from collections.abc import Callable
from typing import Any

from apache_beam.runners.worker import statesampler
from pyspark import TaskContext

from sparkbeam.common.display_text import line, printable
from sparkbeam.plan.model import Stage
from sparkbeam.wire.loglevels import LogLevels
from sparkbeam.wire.output_lines import STDERR, OutputLine
from sparkbeam.worker.output_socket import OUTPUT_SOCKET

_FORMAT = "%(levelname)s:%(step)s:%(name)s:%(message)s"
_NOWHERE = "-"


class StepHandler(logging.StreamHandler):  # type: ignore[type-arg]
    """Handler that writes records with the label of the step whose code runs in the thread."""

    hide: Callable[[str], str] = staticmethod(str)

    def __init__(self) -> None:
        # Not what Spark may put in its place to collect the output of workers.
        super().__init__(sys.__stderr__)
        self.setFormatter(logging.Formatter(_FORMAT))

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        record.step = line(step())
        return printable(self.hide(super().format(record)))

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == "apache_beam.runners.common" and record.exc_info:
            # Beam raises this exception of user code, and the driver is told of it otherwise;
            # elsewhere the executor's log is the place for it.
            told = OUTPUT_SOCKET.is_live
        else:
            told = OUTPUT_SOCKET.write(OutputLine(STDERR, step(), self.format(record)))
        if not told:
            super().emit(record)


_thread_work = threading.local()
"""Current work of the thread: its stage, if there is one."""


def works_on(stage: Stage) -> None:
    """Note that this thread works on a stage from now on."""
    _thread_work.stage = stage


def at(stage: Stage) -> str:
    """Note that the task, in this thread, is at a stage from now on.

    Returns:
        The label of the step to name for what fails outside of its operations: it reads.
    """
    works_on(stage)
    OUTPUT_SOCKET.at(stage.name)
    return stage.labels[0]


def install(levels: LogLevels, hide: Callable[[str], str] = str) -> None:
    """Install logging, so that the records of a Spark worker are written.

    Nothing is changed if the root logger has a handler from elsewhere, as it does outside of
    Spark's workers.
    """
    if TaskContext.get() is None:
        return
    root = logging.getLogger()
    root.handlers = [handler for handler in root.handlers if not _is_of_python(handler)]
    if not root.handlers:
        root.addHandler(StepHandler())
    ours = [handler for handler in root.handlers if isinstance(handler, StepHandler)]
    for handler in ours:
        handler.hide = hide
    if ours:
        _set(levels)


_set_before: set[str] = set()


def _set(levels: LogLevels) -> None:
    """Set the levels; a worker may have served another pipeline before, with other levels."""
    logging.getLogger().setLevel(levels.default)
    for name in _set_before - levels.overrides.keys():
        logging.getLogger(name).setLevel(logging.NOTSET)
    for name, level in levels.overrides.items():
        logging.getLogger(name).setLevel(level)
    _set_before.clear()
    _set_before.update(levels.overrides)


def _is_of_python(handler: logging.Handler) -> bool:
    """Return whether a handler is the one that ``logging.warning`` installs if there is none."""
    formatter = handler.formatter
    return (
        type(handler) is logging.StreamHandler
        and formatter is not None
        and formatter._fmt == logging.BASIC_FORMAT
    )


def step() -> str:
    """Return the label of the step that Beam is in, or else all of the stage, as in a ``setup``."""
    return step_in(getattr(_thread_work, "stage", None), statesampler.get_current_tracker())


def step_in(stage: Stage | None, tracker: Any) -> str:
    """Return the label of the step of a thread that works on a stage, by its state sampler."""
    state = tracker.current_state() if tracker is not None else None
    context = state.name_context if state is not None else None
    if stage is not None:
        # The user has no label for these operations.
        own = stage.source_id, *(port.transform_id for port in stage.ports)
        if context is None or context.transform_id in own:
            return stage.name
    if context is None:
        return _NOWHERE
    return str(context.step_name)
