"""Task reports: committed ones are rows of the output, live ones are datagrams.

A row leaves the plan once for each successful task, whatever Spark retried, so its content is
committed by construction. A task behind a shuffle that reads such a row informs the driver while
the pipeline runs. Datagrams are best effort: they feed the progress display, live metrics and the
attempted values of failed tasks.
"""

import json
import zlib
from base64 import b64decode, b64encode
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from apache_beam.portability.api import beam_fn_api_pb2

from sparkbeam.common.datagrams import Mailbox, opened
from sparkbeam.wire.consolidation import Infos
from sparkbeam.wire.output_lines import OutputLine, Written

NAMESPACE = "sparkbeam"
"""Namespace of the runner's own counters."""

DROPPED_DUE_TO_LATENESS = "dropped_due_to_lateness"
"""Counter of elements in windows past the watermark and the allowed lateness."""

DROPPED_DUE_TO_CLOSED_WINDOW = "dropped_due_to_closed_window"
"""Counter of elements in time that were dropped because the trigger had finished."""

REFUSED_BLOCKS = "refused_blocks: "
"""Prefix of the counters of blocks that a step processed element by element."""

_MOST_UNPACKED = 64 << 20


class ElementCounts(NamedTuple):
    """Numbers of elements of a bundle, a task or a stage.

    Attributes:
        busiest: the elements of the stage's largest PCollection. A stage that reads files has a few
            ranges as input, and this is the number of elements that it has read.
    """

    elements: int = 0
    busiest: int = 0

    def plus(self, other: "ElementCounts") -> "ElementCounts":
        """Add counts."""
        return ElementCounts(self.elements + other.elements, self.busiest + other.busiest)


@dataclass(frozen=True)
class TaskWarning:
    """A Python warning of a worker, on its way to the driver."""

    category: str
    message: str
    filename: str
    line: int


@dataclass(frozen=True)
class TaskReport:
    """Final report of a task to the driver.

    Attributes:
        infos: the metrics of all its bundles.
        counts: the elements of all its bundles.
        written: output and logs of its steps that were not relayed immediately.
        tasks: in batch, the partitions of the stage's input that the report covers.
        kept: the tags of spilled ports, with their file names.
    """

    stage: str
    infos: Infos
    warnings: tuple[TaskWarning, ...] = ()
    counts: ElementCounts = field(default_factory=ElementCounts)
    written: Written = field(default_factory=Written)
    tasks: tuple[int, ...] = ()
    kept: tuple[tuple[int, str], ...] = ()

    def serialize(self) -> bytes:
        """Serialize as the value of a row."""
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
        """Parse the result of :meth:`serialize`."""
        content = json.loads(serialized)
        metrics = beam_fn_api_pb2.ProcessBundleResponse.FromString(b64decode(content["infos"]))
        lines, more = content.get("written", ((), {}))
        return cls(
            content["stage"],
            list(metrics.monitoring_infos),
            tuple(TaskWarning(**warning) for warning in content["warnings"]),
            ElementCounts._make(map(int, content["counts"])),
            Written(tuple(map(OutputLine._make, lines)), more),
            tuple(map(int, content.get("tasks", ()))),
            tuple((int(tag), str(name)) for tag, name in content.get("kept", ())),
        )

    def pack(self) -> str:
        """Serialize for a signal."""
        return b64encode(zlib.compress(self.serialize(), 1)).decode()

    @classmethod
    def unpack(cls, packed: str) -> "TaskReport":
        """Parse the result of :meth:`pack`.

        Raises:
            Exception: of any type, if it is malformed.
        """
        return cls.parse(zlib.decompressobj().decompress(b64decode(packed), _MOST_UNPACKED))


class SignalKind(StrEnum):
    """Kinds of signals of a task."""

    STARTED = "started"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    READ = "read"
    """It has read reports of an earlier stage, whose tasks have therefore succeeded."""


@dataclass(frozen=True)
class Signal:
    """Signal of a running task; the content of a datagram.

    Attributes:
        report: a packed :class:`TaskReport`: the attempt's counts so far, or the reports read;
            empty if there is nothing new.
        attempt: unique id of the attempt at the task.
        number: of the start of the run, or in streaming of the micro-batch.
        spark_stage: the id of Spark's stage with the task; -1 if unknown.
    """

    kind: SignalKind
    stage: str
    partition: int
    counts: ElementCounts = field(default_factory=ElementCounts)
    report: str = ""
    attempt: str = ""
    number: int = 0
    spark_stage: int = -1

    @classmethod
    def parse(cls, datagram: bytes, token: str) -> "Signal":
        """Parse a signal of a :class:`Reporter` with a token.

        Raises:
            Exception: of any type, if the datagram does not belong to the run.
        """
        content = opened(datagram, token)
        counts = ElementCounts._make(map(int, content.pop("counts")))
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
    """Sender of live reports."""

    def send(self, signal: Signal) -> None:
        """Send a signal without waiting; it may be lost."""
        if not self.post(asdict(signal)):
            self.post(asdict(replace(signal, report="")))
