"""A task's reports: committed ones travel as a row of the output, live ones as datagrams.

A row leaves the plan once for each task that succeeded, whatever Spark
retried, so what it carries is committed by construction. Datagrams are sent
when they can be and lost when they cannot: they feed the progress display and
the attempted values of tasks that failed.
"""

import json
import socket
import time
import warnings
from base64 import b64decode, b64encode
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from apache_beam.portability.api import beam_fn_api_pb2

from sparkbeam.worker.consolidation import Infos, consolidate

_REPORT_SECONDS = 0.3
_MAX_DATAGRAM = 60_000
_MAX_WARNINGS = 20


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
    """

    stage: str
    infos: Infos
    warnings: tuple[TaskWarning, ...] = ()

    def serialize(self) -> bytes:
        """The report as the value of a row."""
        metrics = beam_fn_api_pb2.ProcessBundleResponse(monitoring_infos=self.infos)
        return json.dumps(
            {
                "stage": self.stage,
                "infos": b64encode(metrics.SerializeToString()).decode(),
                "warnings": [asdict(warning) for warning in self.warnings],
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
        )


@dataclass(frozen=True)
class Reporter:
    """Where to send live reports.

    Attributes:
        host, port: the driver's.
        token: proves that a report belongs to this run.
    """

    host: str
    port: int
    token: str

    def send(self, content: dict[str, Any]) -> None:
        """Sends a report, or loses it."""
        message = json.dumps({"token": self.token, **content}).encode()
        if len(message) > _MAX_DATAGRAM:
            return
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                sender.sendto(message, (self.host, self.port))
        except OSError:
            return


class Tally:
    """Adds up what the bundles of a task have to report."""

    def __init__(self, stage_id: str, partition: int, reporter: Reporter | None) -> None:
        self._stage_id = stage_id
        self._partition = partition
        self._reporter = reporter
        self._infos: Infos = []
        self._elements = 0
        self._reported = time.monotonic()
        self._send("started")

    def add(self, infos: Infos) -> None:
        """Takes in the metrics of a bundle."""
        self._infos = consolidate([*self._infos, *infos]) if self._infos else infos

    def elements(self, count: int) -> None:
        """Notes that ``count`` more elements have gone into the stage."""
        self._elements += count
        now = time.monotonic()
        if now - self._reported >= _REPORT_SECONDS:
            self._reported = now
            self._send("running")

    def finished(self, caught: Iterable[warnings.WarningMessage]) -> bytes:
        """Reports success; returns the report for the output."""
        self._send("finished")
        unique = dict.fromkeys(
            TaskWarning(_qualified(w.category), str(w.message), w.filename, w.lineno)
            for w in caught
        )
        report = TaskReport(self._stage_id, self._infos, tuple(unique)[:_MAX_WARNINGS])
        return report.serialize()

    def failed(self) -> None:
        """Reports a failed attempt with what it had counted."""
        self._send("failed", report=TaskReport(self._stage_id, self._infos).serialize().decode())

    def _send(self, kind: str, **content: Any) -> None:
        if self._reporter is not None:
            self._reporter.send(
                {
                    "kind": kind,
                    "stage": self._stage_id,
                    "partition": self._partition,
                    "elements": self._elements,
                    **content,
                }
            )


def _qualified(category: type[Warning]) -> str:
    return f"{category.__module__}:{category.__qualname__}"
