"""How a failure in a worker gets to the user: the step, the user's traceback, no JVM page.

Spark carries an exception of a worker to the driver as text. The worker
therefore raises a :class:`WorkerFailure`, whose text holds a
:class:`StepReport` between markers, and the driver finds it there.
"""

import base64
import json
import re
import traceback
from dataclasses import asdict, dataclass
from pathlib import PurePath

import cloudpickle

_BEGIN, _END = "[[sparkbeam-failure:", "]]"
_MARKED = re.compile(re.escape(_BEGIN) + r"([A-Za-z0-9+/=\s\\]+)" + re.escape(_END))
_WHILE_RUNNING = re.compile(r" \[while running '([^\n]*?)'\]")
_LIBRARIES = ("apache_beam", "sparkbeam", "pyspark")
_MAX_PICKLE = 16 << 10


class _KnowsItsStep(Exception):
    """A failure that Beam is to let through as it is."""

    # What Beam calls an exception that has the label of its step already.
    _tagged_with_step = True


class StepFailed(_KnowsItsStep):
    """A step failed outside the user's own code, in the runner's part of it.

    Args:
        label: the label of the step.
        problem: what went wrong, in words.
    """

    def __init__(self, label: str, problem: str) -> None:
        super().__init__(problem)
        self.label = label


class UserCodeFailed(_KnowsItsStep):
    """The user's own code in a step failed; the cause is what it raised."""

    def __init__(self, label: str) -> None:
        super().__init__(f"the code of step '{label}' failed")
        self.label = label


class WorkerFailure(RuntimeError):
    """What a worker raises into Spark."""


@dataclass(frozen=True)
class StepReport:
    """What the driver learns about a failure.

    Attributes:
        label: the user's label of the failed step.
        error: the exception in one line: its type and message.
        trace: the traceback, reduced to the user's own frames where there are any.
        pickled: the pickled exception, base64; empty where it cannot be pickled.
    """

    label: str
    error: str
    trace: str
    pickled: str

    def exception(self) -> BaseException | None:
        """The original exception, where it could travel."""
        if not self.pickled:
            return None
        try:
            loaded = cloudpickle.loads(base64.b64decode(self.pickled))
        except Exception:  # Whatever a user's class does when it is loaded.
            return None
        return loaded if isinstance(loaded, BaseException) else None


def report(error: BaseException, stage_label: str) -> WorkerFailure:
    """The exception to raise into Spark for ``error``, which ended a bundle of a stage."""
    found = _describe(error, stage_label)
    text = base64.b64encode(json.dumps(asdict(found)).encode()).decode()
    return WorkerFailure(f"{found.error} {_BEGIN}{text}{_END}")


def find(message: str) -> StepReport | None:
    """The report in the text of an exception that came out of Spark, if there is one."""
    marked = _MARKED.search(message)
    if marked is None:
        return None
    text = re.sub(r"[\s\\]|\\n", "", marked.group(1))
    return StepReport(**json.loads(base64.b64decode(text)))


def _describe(error: BaseException, stage_label: str) -> StepReport:
    failed = _step_failed(error)
    if failed is not None:
        cause = failed.__cause__
        summary = f"{failed}: {type(cause).__name__}: {cause}" if cause else str(failed)
        return StepReport(failed.label, summary, _user_trace(cause or failed), "")
    if isinstance(error, UserCodeFailed) and error.__cause__ is not None:
        stage_label, error = error.label, error.__cause__
    message = str(error)
    labels = _WHILE_RUNNING.findall(message)
    message = _WHILE_RUNNING.sub("", message)
    summary = f"{type(error).__name__}: {message}"
    if _is_of_coder(error):
        summary = f"the coder of its output cannot encode an element: {summary}"
    return StepReport(
        labels[0] if labels else stage_label,
        summary,
        _user_trace(error),
        _pickle(error),
    )


def _step_failed(error: BaseException | None) -> StepFailed | None:
    """The failure of the runner's part that ``error`` is, or that Beam has made it of."""
    while error is not None:
        if isinstance(error, StepFailed):
            return error
        error = error.__cause__ or error.__context__
    return None


def _is_of_coder(error: BaseException) -> bool:
    """Whether the coder failed as Beam measured the size of an element."""
    frames = traceback.extract_tb(error.__traceback__)
    return any(PurePath(frame.filename).name == "opcounters.py" for frame in frames)


def _user_trace(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not _is_library(frame.filename)]
    return "".join(traceback.format_list(own or frames[-3:]))


def _is_library(filename: str) -> bool:
    parts = PurePath(filename).parts
    return any(library in parts for library in _LIBRARIES) or filename.startswith("<frozen")


def _pickle(error: BaseException) -> str:
    try:
        pickled = cloudpickle.dumps(error)
    except Exception:  # Whatever a user's class does when it is pickled.
        return ""
    return base64.b64encode(pickled).decode() if len(pickled) <= _MAX_PICKLE else ""
