"""Transport of a worker's failure to the user: step and user traceback, without JVM frames.

Spark carries an exception of a worker to the driver as text. The worker therefore raises a
:class:`WorkerFailure`, whose text has a :class:`StepReport` between markers, and the driver parses
it. The same text may contain user data, so a report is signed with a token of the run, and is
restricted to data.
"""

import base64
import functools
import hmac
import json
import os
import re
import secrets
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import PurePath

from apache_beam.runners.common import NameContext

from sparkbeam.common.display_text import concealed, printable
from sparkbeam.common.entry_points import packages
from sparkbeam.plan.redaction import Redaction
from sparkbeam.upstream.beam import MODULE_OF_COUNTERS
from sparkbeam.wire.exceptions import ExceptionData
from sparkbeam.wire.heap import RowTooLarge

_BEGIN, _END = "[[sparkbeam-failure:", "]]"
_MARKED = re.compile(re.escape(_BEGIN) + r"([0-9a-f]{64}):([A-Za-z0-9+/=\s\\]+)" + re.escape(_END))
_WHILE_RUNNING = re.compile(r" \[while running '([^\n]*?)'\]")
_LIBRARIES = ("apache_beam", "pyspark")
_MOST_CHARACTERS = 10_000
_STEPS = frozenset(["operations.py", "functions.py", "onetoone.py", "dofns.py", "common.py"])


class _KnowsItsStep(Exception):
    """A failure that Beam must not modify."""

    # Beam's mark of an exception that already has the label of its step.
    _tagged_with_step = True


class StepFailed(_KnowsItsStep):
    """A step failed outside the user's own code, in the runner's part of it.

    Args:
        problem: the error, in words.
    """

    def __init__(self, label: str, problem: str) -> None:
        super().__init__(problem)
        self.label = label


class UserCodeFailed(_KnowsItsStep):
    """The user's code in a step failed; the cause is its exception.

    Args:
        problem: the operation that failed for that reason, in words.
    """

    def __init__(self, label: str, problem: str = "") -> None:
        super().__init__(f"the code of step '{label}' failed")
        self.label = label
        self.problem = problem


@contextmanager
def within_step(label: str, problem: str = "") -> Iterator[None]:
    """Attribute exceptions of user code to a step, unless they belong to another one.

    Args:
        problem: see :class:`UserCodeFailed`.

    Raises:
        UserCodeFailed: the code failed.
    """
    try:
        yield
    except Exception as error:
        if getattr(error, "_tagged_with_step", False) or _operation_of(error) not in (None, label):
            raise
        raise UserCodeFailed(label, problem) from error


class NoStep(NameContext):
    """Name of an operation that is not a step of the user's."""


class WorkerFailure(RuntimeError):
    """Exception that a worker raises into Spark."""


@dataclass(frozen=True)
class StepReport:
    """A failure, as reported to the driver.

    Attributes:
        error: the exception in one line: its type and message.
        trace: the traceback, reduced to the user's own frames if there are any.
        cause: the exception of the user's code; None if the runner's part failed.
    """

    label: str
    error: str
    trace: str
    cause: ExceptionData | None = None

    def exception(self) -> BaseException | None:
        """Restore the original exception, as far as possible."""
        return None if self.cause is None else self.cause.exception()

    def pack(self) -> bytes:
        """Serialize as JSON."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def unpack(cls, packed: bytes) -> "StepReport":
        """Parse the result of :meth:`pack`."""
        content = json.loads(packed)
        cause = content.pop("cause")
        return cls(**content, cause=None if cause is None else ExceptionData(**cause))


@dataclass(frozen=True)
class FailureReports:
    """Creates and recognizes the failure reports of a run; sent with the run's tasks.

    Attributes:
        token: signs the reports, so that text of user data is not mistaken for one.
        redaction: removes secrets before Spark sees the text.
    """

    token: bytes = field(default_factory=lambda: secrets.token_bytes(16), repr=False)
    redaction: Redaction = field(default_factory=Redaction, repr=False)

    def report(self, error: BaseException, label: str) -> WorkerFailure:
        """Return the exception to raise into Spark for ``error``.

        Args:
            label: of the step to name if the error belongs to none.
        """
        found = self.describe(error, label)
        packed = found.pack()
        text = base64.b64encode(packed).decode()
        return WorkerFailure(f"{found.error} {_BEGIN}{self._signature(packed)}:{text}{_END}")

    def spoken(self) -> "SpokenReports":
        """Return reports for readers of Spark's own text."""
        return SpokenReports(self.token, self.redaction)

    def find(self, message: str) -> StepReport | None:
        """Return the report in the text of Spark's exception, or None."""
        for signature, content in _candidates(message):
            if hmac.compare_digest(signature, self._signature(content)):
                return StepReport.unpack(content)
        return None

    def _signature(self, packed: bytes) -> str:
        return hmac.digest(self.token, packed, "sha256").hex()

    def describe(self, error: BaseException, label: str) -> StepReport:
        """Return the report of ``error``; see :meth:`report`."""
        failed = _step_failed(error)
        if failed is not None:
            cause = failed.__cause__
            if isinstance(cause, RowTooLarge):
                return StepReport(failed.label, str(failed), "")
            summary = f"{failed}: {type(cause).__name__}: {cause}" if cause else str(failed)
            return StepReport(
                failed.label,
                printable(self._shown(summary)),
                printable(self._shown(_user_trace(cause or failed))),
            )
        known, problem = None, ""
        while isinstance(error, UserCodeFailed) and error.__cause__ is not None:
            known, problem, error = error.label, error.problem or problem, error.__cause__
        message = _text(error)
        labels = _WHILE_RUNNING.findall(message)
        message = _WHILE_RUNNING.sub("", message)
        known = labels[0] if labels else known or _operation_of(error)
        summary = f"{type(error).__name__}: {message}"
        if problem:
            summary = f"{problem}: {summary}"
        elif _is_of_coder(error):
            summary = f"the coder of its output cannot encode an element: {summary}"
        elif known is None and is_decoding(error):
            summary = f"the coder of its input cannot decode an element: {summary}"
        return StepReport(
            known or label,
            printable(self._shown(summary)),
            printable(self._shown(_user_trace(error))),
            ExceptionData.from_exception(error, self._shown),
        )

    def _shown(self, text: str) -> str:
        """Redact a text and limit its length."""
        return concealed(text, _MOST_CHARACTERS, self.redaction)


class SpokenReports(FailureReports):
    """Reports in plain text, for tasks without a driver of ours."""

    def report(self, error: BaseException, label: str) -> WorkerFailure:
        found = self.describe(error, label)
        return WorkerFailure(f"Step '{found.label}' failed: {found.error}\n{found.trace.rstrip()}")


def _candidates(message: str) -> Iterator[tuple[str, bytes]]:
    """Yield possible reports in a text: signature and content."""
    for marked in _MARKED.finditer(message):
        text = re.sub(r"\\+n|[\s\\]", "", marked.group(2))
        try:
            yield marked.group(1), base64.b64decode(text)
        except ValueError:
            continue


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # A user's class may fail in any way.
        return "(its message is not available)"


def _step_failed(error: BaseException | None) -> StepFailed | None:
    """Return the failure of the runner's part in ``error`` or its causes."""
    while error is not None:
        if isinstance(error, StepFailed):
            return error
        error = error.__cause__ or error.__context__
    return None


def _is_of_coder(error: BaseException) -> bool:
    """Return whether the coder failed while Beam measured the size of an element."""
    if isinstance(error, RecursionError | MemoryError):
        return False
    files = [PurePath(f.filename).name for f in traceback.extract_tb(error.__traceback__)]
    if MODULE_OF_COUNTERS not in files:
        return False
    # A step below means that the element was passed on.
    below = files[len(files) - files[::-1].index(MODULE_OF_COUNTERS) :]
    return not _STEPS.intersection(below)


def is_decoding(error: BaseException) -> bool:
    """Return whether a coder raised an error while decoding."""
    return any(
        PurePath(frame.filename).parent.name == "coders" and "decode" in frame.name
        for frame in traceback.extract_tb(error.__traceback__)
        if _is_library(frame.filename)
    )


def remember_operation(error: BaseException) -> None:
    """Record the operation that raised an error, before its frames are cleared."""
    with suppress(Exception):  # Frames hold the user's objects, and classes may have slots.
        error._raised_in = _operation_of(error)  # type: ignore[attr-defined]


def _operation_of(error: BaseException) -> str | None:
    """Return the label of the innermost operation that raised an error, if visible."""
    label: str | None = getattr(error, "_raised_in", None)
    if label is not None:
        return label
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if not _is_library(frame.f_code.co_filename):
            continue
        for name in ("self", "op"):  # Beam's loops over the operations of a bundle call it "op".
            context = getattr(frame.f_locals.get(name), "name_context", None)
            if isinstance(context, NameContext) and not isinstance(context, NoStep):
                label = context.step_name
    return label


def _user_trace(error: BaseException) -> str:
    """Return the user's frames, or else the last ones of Beam and Spark; none of the runner."""
    ours = _roots(packages())
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(ours)
    ]
    own = [frame for frame in frames if not _is_library(frame.filename)]
    return "".join(traceback.format_list(own or frames[-3:]))


@functools.cache
def _is_library(filename: str) -> bool:
    # Compiled modules have relative names.
    libraries = {*_LIBRARIES, *packages()}
    return filename.startswith((*_roots(libraries), *(f"{each}/" for each in libraries), "<frozen"))


def _roots(libraries: Iterable[str]) -> tuple[str, ...]:
    """Return the folders, or the archives, of those that are there; none is imported for that."""
    specs = filter(None, map(find_spec, libraries))
    return tuple(os.path.join(os.path.dirname(str(spec.origin)), "") for spec in specs)
