"""A task's reports: committed ones travel as a row of the output, live ones as datagrams.

A row leaves the plan once for each task that succeeded, whatever Spark
retried, so what it carries is committed by construction. A task behind a
shuffle that reads such a row tells the driver of it while the pipeline runs.
Datagrams are sent when they can be and lost when they cannot: they feed the
progress display, live metrics and the attempted values of tasks that failed.
"""

import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from apache_beam.portability.api import beam_fn_api_pb2

from sparkbeam.common.datagrams import Mailbox, opened
from sparkbeam.wire.consolidation import Infos
from sparkbeam.wire.output_lines import Line, Written

NAMESPACE = "sparkbeam"
"""The namespace of the counters that the runner itself adds."""

DROPPED_DUE_TO_LATENESS = "dropped_due_to_lateness"
"""The counter of elements whose window was past the watermark and the allowed lateness."""

DROPPED_DUE_TO_CLOSED_WINDOW = "dropped_due_to_closed_window"
"""The counter of elements in time that the trigger of their window has left out for good."""

REFUSED_BLOCKS = "refused_blocks: "
"""How the counters of a step begin whose function was called for each element all the same."""

_MOST_UNPACKED = 64 << 20


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
        tasks: in batch, the partitions of the stage's input that the report is of.
        kept: the tags of ports whose rows are in files, with the names of these.
    """

    stage: str
    infos: Infos
    warnings: tuple[TaskWarning, ...] = ()
    counts: Counts = field(default_factory=Counts)
    written: Written = field(default_factory=Written)
    tasks: tuple[int, ...] = ()
    kept: tuple[tuple[int, str], ...] = ()

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
                **({"tasks": self.tasks} if self.tasks else {}),
                **({"kept": self.kept} if self.kept else {}),
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
            tuple(map(int, content.get("tasks", ()))),
            tuple((int(tag), str(name)) for tag, name in content.get("kept", ())),
        )

    def pack(self) -> str:
        """The report as a signal carries it."""
        return b64encode(zlib.compress(self.serialize(), 1)).decode()

    @classmethod
    def unpack(cls, packed: str) -> "TaskReport":
        """The inverse of :meth:`pack`.

        Raises:
            Exception: of whatever type, if it is not what that gives.
        """
        return cls.parse(zlib.decompressobj().decompress(b64decode(packed), _MOST_UNPACKED))


def _written(lines: Iterable[Iterable[str]], more: Mapping[str, int]) -> Written:
    return Written(tuple(map(Line._make, lines)), more)


class SignalKind(StrEnum):
    """What a task has to say about itself."""

    STARTED = "started"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    READ = "read"
    """It has read reports of an earlier stage, whose tasks have therefore succeeded."""


@dataclass(frozen=True)
class Signal:
    """A sign of life of a task; the content of a datagram.

    Attributes:
        kind: what happened.
        stage: the stage's id.
        partition: which part of the stage's input the task works on.
        counts: the elements so far.
        report: a packed :class:`TaskReport`: what the attempt has counted so far, or what READ
            tells of; empty where there is nothing new.
        attempt: tells the attempt at the task from all others.
        number: of the run, which may start again, or in streaming of the micro-batch.
        spark_stage: the number of Spark's stage with the task; -1 where that is not known.
    """

    kind: SignalKind
    stage: str
    partition: int
    counts: Counts = field(default_factory=Counts)
    report: str = ""
    attempt: str = ""
    number: int = 0
    spark_stage: int = -1

    @classmethod
    def parse(cls, datagram: bytes, token: str) -> "Signal":
        """The signal that a :class:`Reporter` with a token has sent.

        Raises:
            Exception: of whatever type, where the datagram is none of this run's.
        """
        content = opened(datagram, token)
        counts = Counts._make(map(int, content.pop("counts")))
        signal = cls(SignalKind(content.pop("kind")), counts=counts, **content)
        if not (
            type(signal.stage) is str
            and type(signal.partition) is int
            and type(signal.report) is str
            and type(signal.attempt) is str
            and type(signal.number) is int
            and type(signal.spark_stage) is int
            and min(signal.partition, signal.number, *counts) >= 0
        ):
            raise ValueError("malformed signal")
        return signal


@dataclass(frozen=True)
class Reporter(Mailbox):
    """Where to send live reports."""

    def send(self, signal: Signal) -> None:
        """Sends a signal, or loses it; never waits."""
        if not self.post(asdict(signal)):
            self.post(asdict(replace(signal, report="")))
