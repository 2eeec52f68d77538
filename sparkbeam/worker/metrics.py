"""A task's reports: committed ones travel as a row of the output, live ones as datagrams.

A row leaves the plan once for each task that succeeded, whatever Spark
retried, so what it carries is committed by construction. Datagrams are sent
when they can be and lost when they cannot: they feed the progress display and
the attempted values of tasks that failed.
"""

import contextlib
import hmac
import json
import socket
import threading
import time
import warnings
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.runners.worker import operations

from sparkbeam.wire.consolidation import Infos, consolidate, repeatable
from sparkbeam.worker import output
from sparkbeam.worker.outlet import Line, Written

if TYPE_CHECKING:
    from sparkbeam.worker.steps.processor import StageProcessor

REPORT_SECONDS = 0.3
"""A running task sends a signal about this often."""

_MAX_DATAGRAM = 60_000
_MAX_WARNINGS = 20

_T = TypeVar("_T")


class Counts(NamedTuple):
    """How many elements a bundle, a task or a stage has seen.

    Attributes:
        elements: those that went into the stage.
        busiest: those in the PCollection of the stage that has the most of
            them. A stage that reads files takes in a few ranges, and this
            tells how much it has read.
    """

    elements: int = 0
    busiest: int = 0

    def plus(self, other: "Counts") -> "Counts":
        """The sum."""
        return Counts(self.elements + other.elements, self.busiest + other.busiest)


@dataclass(frozen=True)
class TaskWarning:
    """A Python warning of a worker, on its way to the driver."""

    category: str
    message: str
    filename: str
    line: int


@dataclass(frozen=True)
class TaskReport:
    """What a task tells the driver when it ends.

    Attributes:
        stage: the stage's id.
        infos: the metrics of all its bundles.
        warnings: what the user's code and Beam warned of.
        counts: the elements of all its bundles.
        written: what its steps have printed and logged, where that has not been told at once.
    """

    stage: str
    infos: Infos
    warnings: tuple[TaskWarning, ...] = ()
    counts: Counts = field(default_factory=Counts)
    written: Written = field(default_factory=Written)

    def serialize(self) -> bytes:
        """The report as the value of a row."""
        metrics = beam_fn_api_pb2.ProcessBundleResponse(monitoring_infos=self.infos)
        return json.dumps(
            {
                "stage": self.stage,
                "infos": b64encode(metrics.SerializeToString(deterministic=True)).decode(),
                "warnings": [asdict(warning) for warning in self.warnings],
                "counts": self.counts,
                "written": [self.written.lines, self.written.more],
            }
        ).encode()

    @classmethod
    def parse(cls, serialized: bytes) -> "TaskReport":
        """The inverse of :meth:`serialize`."""
        content = json.loads(serialized)
        metrics = beam_fn_api_pb2.ProcessBundleResponse.FromString(b64decode(content["infos"]))
        return cls(
            content["stage"],
            list(metrics.monitoring_infos),
            tuple(TaskWarning(**warning) for warning in content["warnings"]),
            Counts._make(map(int, content["counts"])),
            _written(*content.get("written", ((), {}))),
        )


def _written(lines: Iterable[Iterable[str]], more: Mapping[str, int]) -> Written:
    return Written(tuple(map(Line._make, lines)), more)


class SignalKind(StrEnum):
    """What a task has to say about itself."""

    STARTED = "started"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"


@dataclass(frozen=True)
class Signal:
    """A sign of life of a task; the content of a datagram.

    Attributes:
        kind: what happened.
        stage: the stage's id.
        partition: which part of the stage's input the task works on.
        counts: the elements so far.
        report: a serialised :class:`TaskReport`, if the task failed.
    """

    kind: SignalKind
    stage: str
    partition: int
    counts: Counts = field(default_factory=Counts)
    report: str = ""

    def datagram(self, token: str) -> bytes:
        """The signal with the proof that it belongs to a run."""
        return json.dumps({"token": token, **asdict(self)}).encode()

    @classmethod
    def parse(cls, datagram: bytes, token: str) -> "Signal":
        """The inverse of :meth:`datagram`.

        Raises:
            Exception: of whatever type, where the datagram is none of this run's.
        """
        content = json.loads(datagram)
        if not hmac.compare_digest(str(content.pop("token")).encode(), token.encode()):
            raise ValueError("wrong token")
        counts = Counts._make(map(int, content.pop("counts")))
        signal = cls(SignalKind(content.pop("kind")), counts=counts, **content)
        if not (
            type(signal.stage) is str
            and type(signal.partition) is int
            and type(signal.report) is str
            and min(signal.partition, *counts) >= 0
        ):
            raise ValueError("malformed signal")
        return signal


@dataclass(frozen=True)
class Reporter:
    """Where to send live reports.

    Attributes:
        host, port: the driver's.
        token: proves that a report belongs to this run.
    """

    host: str
    port: int
    token: str = field(repr=False)

    def send(self, signal: Signal) -> None:
        """Sends a signal, or loses it; never waits."""
        message = signal.datagram(self.token)
        if len(message) > _MAX_DATAGRAM:
            message = replace(signal, report="").datagram(self.token)
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
        ):
            sender.setblocking(False)
            sender.sendto(message, (self.host, self.port))


class Tally:
    """Adds up what the bundles of a task have to report."""

    def __init__(
        self,
        stage_id: str,
        partition: int,
        reporter: Reporter | None,
        *,
        repeatable: bool = False,
    ) -> None:
        self._repeatable = repeatable
        self._stage_id = stage_id
        self._partition = partition
        self._reporter = reporter
        self._infos: Infos = []
        self._counts = Counts()
        self._bundle: Bundle | None = None
        self._lock = threading.Lock()
        self._reported = time.monotonic()
        self._send(SignalKind.STARTED)

    def followed(
        self, processor: "StageProcessor", items: Iterable[_T], *, resumed: bool = False
    ) -> Iterator[_T]:
        """The input of a bundle, which is followed from when it asks for the first item.

        Until then the processor may still show the bundle before. It ends with :meth:`add`.

        Args:
            processor: runs the bundle.
            items: what goes into it.
            resumed: see :class:`Bundle`.
        """
        with self._lock:
            self._bundle = Bundle(processor.entry, processor.monitoring_infos, resumed=resumed)
        yield from items

    def add(self, infos: Infos) -> None:
        """Takes in the metrics of a bundle, which has ended."""
        with self._lock:
            self._counts = self._total()
            self._bundle = None
        self._infos = consolidate([*self._infos, *infos]) if self._infos else infos

    def arrived(self, elements: int) -> None:
        """Counts elements that go into the stage, but into no bundle yet."""
        with self._lock:
            self._counts = self._counts.plus(Counts(elements=elements))

    def tick(self) -> None:
        """Reports how far the task has come, if it is time; from any thread."""
        now = time.monotonic()
        if now - self._reported >= REPORT_SECONDS:
            self._reported = now
            self._send(SignalKind.RUNNING)

    def finished(self, caught: Iterable[warnings.WarningMessage]) -> bytes:
        """Reports success; returns the report for the output."""
        self._send(SignalKind.FINISHED)
        unique = dict.fromkeys(
            TaskWarning(_qualified(w.category), str(w.message), w.filename, w.lineno)
            for w in caught
        )
        warned = tuple(unique)[:_MAX_WARNINGS]
        infos = repeatable(self._infos) if self._repeatable else self._infos
        written = output.taken()
        if self._repeatable:
            written = written.counted()
        return TaskReport(self._stage_id, infos, warned, self._counts, written).serialize()

    def failed(self) -> None:
        """Reports a failed attempt with what it had counted, the unfinished bundle too."""
        infos = self._infos
        if self._bundle is not None:
            # What the failure has left behind need not hold together.
            with contextlib.suppress(Exception):
                infos = consolidate([*infos, *self._bundle.infos()])
        report = TaskReport(self._stage_id, infos).serialize().decode()
        self._send(SignalKind.FAILED, report)

    def _send(self, kind: SignalKind, report: str = "") -> None:
        if self._reporter is None:
            return
        with self._lock:
            counts = self._total()
        self._reporter.send(Signal(kind, self._stage_id, self._partition, counts, report))

    def _total(self) -> Counts:
        return self._counts if self._bundle is None else self._counts.plus(self._bundle.counts())


class Bundle:
    """A bundle while it runs.

    Beam counts the elements of each PCollection anyway, so to follow a bundle
    costs no more than reading the counters now and then.

    Args:
        source: the operation that feeds the bundle.
        infos: gives the metrics of the bundle so far.
        resumed: the bundle goes on with elements that an earlier one has
            taken in and deferred.
    """

    def __init__(
        self, source: operations.Operation, infos: Callable[[], Infos], *, resumed: bool = False
    ) -> None:
        self.infos = infos
        self._elements = None if resumed else source.receivers[0].opcounter.element_counter
        self._all = [
            counter
            for counter in source.counter_factory.get_counters()
            if str(counter.name).endswith("-ElementCount")
        ]

    def counts(self) -> Counts:
        """The elements so far."""
        elements = 0 if self._elements is None else self._elements.value()
        return Counts(elements, max((counter.value() for counter in self._all), default=0))


def _qualified(category: type[Warning]) -> str:
    return f"{category.__module__}:{category.__qualname__}"
