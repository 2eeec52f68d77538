"""How a failure in a worker gets to the user: the step, the user's traceback, no JVM page.

Spark carries an exception of a worker to the driver as text. The worker therefore raises a
:class:`WorkerFailure`, whose text holds a :class:`StepReport` between markers, and the driver finds
it there. What the user's data says may be in the same text, so a report is signed with a token
of the run, and what it holds is data.
"""

import base64
import hmac
import json
import re
import secrets
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import PurePath

from apache_beam.runners.common import NameContext

from sparkbeam.common.display_text import concealed, printable
from sparkbeam.plan.redaction import Redaction
from sparkbeam.upstream.beam import MODULE_OF_COUNTERS
from sparkbeam.wire.exceptions import ExceptionData
from sparkbeam.wire.heap import RowTooLarge

_BEGIN, _END = "[[sparkbeam-failure:", "]]"
_MARKED = re.compile(re.escape(_BEGIN) + r"([0-9a-f]{64}):([A-Za-z0-9+/=\s\\]+)" + re.escape(_END))
_WHILE_RUNNING = re.compile(r" \[while running '([^\n]*?)'\]")
_LIBRARIES = ("apache_beam", "sparkbeam", "pyspark")
_MOST_CHARACTERS = 10_000
_STEPS = frozenset(["operations.py", "functions.py", "onetoone.py", "dofns.py", "common.py"])


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
    """The user's own code in a step failed; the cause is what it raised.

    Args:
        label: the label of the step.
        problem: what failed for that reason, in words.
    """

    def __init__(self, label: str, problem: str = "") -> None:
        super().__init__(f"the code of step '{label}' failed")
        self.label = label
        self.problem = problem


@contextmanager
def within_step(label: str, problem: str = "") -> Iterator[None]:
    """Names a step for what the user's code raises in it, unless the error is of another one.

    Args:
        label: the label of the step.
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
    """The name of an operation that is no step of the user's."""


class WorkerFailure(RuntimeError):
    """What a worker raises into Spark."""


@dataclass(frozen=True)
class StepReport:
    """What the driver learns about a failure.

    Attributes:
        label: the user's label of the failed step.
        error: the exception in one line: its type and message.
        trace: the traceback, reduced to the user's own frames where there are any.
        cause: the exception that the user's code raised; None where it was the runner's part.
    """

    label: str
    error: str
    trace: str
    cause: ExceptionData | None = None

    def exception(self) -> BaseException | None:
        """The original exception, as far as data can tell."""
        return None if self.cause is None else self.cause.exception()

    def pack(self) -> bytes:
        """All of it as JSON."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def unpack(cls, packed: bytes) -> "StepReport":
        """The inverse of :meth:`pack`."""
        content = json.loads(packed)
        cause = content.pop("cause")
        return cls(**content, cause=None if cause is None else ExceptionData(**cause))


@dataclass(frozen=True)
class Reports:
    """Makes the reports of a run, and finds them; it travels with the run's tasks.

    Attributes:
        token: signs the reports, so that a text of the user's data is taken for none.
        redaction: takes out what nobody is to see, before Spark gets to see it.
    """

    token: bytes = field(default_factory=lambda: secrets.token_bytes(16), repr=False)
    redaction: Redaction = field(default_factory=Redaction, repr=False)

    def report(self, error: BaseException, label: str) -> WorkerFailure:
        """The exception to raise into Spark for ``error``.

        Args:
            error: what has ended a bundle.
            label: of the step to name where the error comes out of none.
        """
        found = self.describe(error, label)
        packed = found.pack()
        text = base64.b64encode(packed).decode()
        return WorkerFailure(f"{found.error} {_BEGIN}{self._signature(packed)}:{text}{_END}")

    def spoken(self) -> "SpokenReports":
        """The same for whoever reads Spark's own text."""
        return SpokenReports(self.token, self.redaction)

    def find(self, message: str) -> StepReport | None:
        """The report in the text of an exception that came out of Spark, if there is one."""
        for signature, content in _candidates(message):
            if hmac.compare_digest(signature, self._signature(content)):
                return StepReport.unpack(content)
        return None

    def _signature(self, packed: bytes) -> str:
        return hmac.digest(self.token, packed, "sha256").hex()

    def describe(self, error: BaseException, label: str) -> StepReport:
        """Say what the driver is to learn about ``error``; see :meth:`report`."""
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
            ExceptionData.of(error, self._shown),
        )

    def _shown(self, text: str) -> str:
        """A text as it may be shown; of a long one, its beginning."""
        return concealed(text, _MOST_CHARACTERS, self.redaction)


class SpokenReports(Reports):
    """Reports in words, where no driver of ours waits for the tasks."""

    def report(self, error: BaseException, label: str) -> WorkerFailure:
        found = self.describe(error, label)
        return WorkerFailure(f"Step '{found.label}' failed: {found.error}\n{found.trace.rstrip()}")


def _candidates(message: str) -> Iterator[tuple[str, bytes]]:
    """What looks like a report in a text: its signature and its content."""
    for marked in _MARKED.finditer(message):
        text = re.sub(r"\\+n|[\s\\]", "", marked.group(2))
        try:
            yield marked.group(1), base64.b64decode(text)
        except ValueError:
            continue


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # Whatever a user's class does.
        return "(its text cannot be told)"


def _step_failed(error: BaseException | None) -> StepFailed | None:
    """The failure of the runner's part that ``error`` is, or that Beam has made it of."""
    while error is not None:
        if isinstance(error, StepFailed):
            return error
        error = error.__cause__ or error.__context__
    return None


def _is_of_coder(error: BaseException) -> bool:
    """Whether the coder failed as Beam measured the size of an element."""
    if isinstance(error, RecursionError | MemoryError):
        return False
    files = [PurePath(f.filename).name for f in traceback.extract_tb(error.__traceback__)]
    if MODULE_OF_COUNTERS not in files:
        return False
    # A step below that is one that the element got to.
    below = files[len(files) - files[::-1].index(MODULE_OF_COUNTERS) :]
    return not _STEPS.intersection(below)


def is_decoding(error: BaseException) -> bool:
    """Whether an error was raised by a coder that was to decode."""
    return any(
        PurePath(frame.filename).parent.name == "coders" and "decode" in frame.name
        for frame in traceback.extract_tb(error.__traceback__)
        if _is_library(frame.filename)
    )


def remember_operation(error: BaseException) -> None:
    """Keep in which operation an error was raised, before its frames are cleared."""
    with suppress(Exception):  # Frames hold objects of the user's, and classes may have slots.
        error._raised_in = _operation_of(error)  # type: ignore[attr-defined]


def _operation_of(error: BaseException) -> str | None:
    """The label of the innermost operation in whose code an error was raised, if it is seen."""
    label: str | None = getattr(error, "_raised_in", None)
    if label is not None:
        return label
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if not _is_library(frame.f_code.co_filename):
            continue
        for name in ("self", "op"):  # In Beam's loops over the operations of a bundle it is "op".
            context = getattr(frame.f_locals.get(name), "name_context", None)
            if isinstance(context, NameContext) and not isinstance(context, NoStep):
                label = context.step_name
    return label


def _user_trace(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not _is_library(frame.filename)]
    return "".join(traceback.format_list(own or frames[-3:]))


def _is_library(filename: str) -> bool:
    parts = PurePath(filename).parts
    return any(library in parts for library in _LIBRARIES) or filename.startswith("<frozen")
