"""Log records of the user's code: on the worker's standard error, with the label of their step."""

import logging
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from apache_beam.runners.worker import statesampler
from pyspark import TaskContext

from sparkbeam.plan.model import Stage

_FORMAT = "%(levelname)s:%(step)s:%(name)s:%(message)s"
_NOWHERE = "-"


@dataclass(frozen=True)
class LogLevels:
    """From which level on records are written.

    Attributes:
        default: of loggers without a level of their own, as a number of :mod:`logging`.
        overrides: of loggers by their name.
    """

    default: int = logging.WARNING
    overrides: Mapping[str, int] = field(default_factory=dict)


class StepHandler(logging.StreamHandler):  # type: ignore[type-arg]
    """Writes records with the label of the step whose code runs in the thread.

    Attributes:
        hide: takes out of a line what nobody is to see.
    """

    hide: Callable[[str], str] = staticmethod(str)

    def __init__(self) -> None:
        # Not what Spark may put in its place to collect the output of workers.
        super().__init__(sys.__stderr__)
        self.setFormatter(logging.Formatter(_FORMAT))

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record."""
        record.step = _step()
        return self.hide(super().format(record))


class _Here(threading.local):
    """What the thread works on."""

    stage: Stage | None = None


_here = _Here()


def at(stage: Stage) -> str:
    """Notes that this thread works on a stage from now on; gives the label to blame."""
    _here.stage = stage
    return stage.labels[-1]


def install(levels: LogLevels, hide: Callable[[str], str] = str) -> None:
    """Sees to it that the records of a worker of Spark are written.

    Where the root logger has a handler that somebody else has put there, they decide, and
    nothing is changed. So it is outside of Spark's workers.

    Args:
        levels: which of them.
        hide: takes out of a line what nobody is to see.
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
    """A worker may have served another pipeline before, with other levels."""
    logging.getLogger().setLevel(levels.default)
    for name in _set_before - levels.overrides.keys():
        logging.getLogger(name).setLevel(logging.NOTSET)
    for name, level in levels.overrides.items():
        logging.getLogger(name).setLevel(level)
    _set_before.clear()
    _set_before.update(levels.overrides)


def _is_of_python(handler: logging.Handler) -> bool:
    """Whether it is what the first ``logging.warning`` without any handler installs."""
    formatter = handler.formatter
    return (
        type(handler) is logging.StreamHandler
        and formatter is not None
        and formatter._fmt == logging.BASIC_FORMAT
    )


def _step() -> str:
    """The label of the step that Beam is in, or else all of the stage, as in a ``setup``."""
    tracker = statesampler.get_current_tracker()
    state = tracker.current_state() if tracker is not None else None
    context = state.name_context if state is not None else None
    stage = _here.stage
    if context is None or (stage is not None and _is_of_runner(stage, context.transform_id)):
        return _NOWHERE if stage is None else stage.name
    return str(context.step_name)


def _is_of_runner(stage: Stage, transform_id: str) -> bool:
    """Whether it is an operation that the user has not written, and has no label for."""
    return transform_id in (stage.source_id, *(port.transform_id for port in stage.ports))
