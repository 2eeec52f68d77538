"""A task's metrics: committed ones travel as a row of the output, live ones as datagrams.

A row leaves the plan once for each task that succeeded, whatever Spark
retried, so what it carries is committed by construction. Datagrams are sent
when they can be and lost when they cannot: they feed the progress display and
the attempted values of tasks that failed.
"""

import json
import socket
import time
from dataclasses import dataclass
from typing import Any

from apache_beam.metrics import monitoring_infos
from apache_beam.portability.api import beam_fn_api_pb2, metrics_pb2

_REPORT_SECONDS = 0.3
_MAX_DATAGRAM = 60_000

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

    def send(self, kind: str, **content: Any) -> None:
        """Sends a report, or loses it."""
        message = json.dumps({"token": self.token, "kind": kind, **content}).encode()
        if len(message) > _MAX_DATAGRAM:
            return
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                sender.sendto(message, (self.host, self.port))
        except OSError:
            return


class Tally:
    """Adds up the metrics of a task's bundles."""

    def __init__(self, stage_id: str, partition: int, reporter: Reporter | None) -> None:
        self._stage_id = stage_id
        self._partition = partition
        self._reporter = reporter
        self._infos: list[metrics_pb2.MonitoringInfo] = []
        self._rows = 0
        self._reported = time.monotonic()
        self._send("started")

    def add(self, infos: list[metrics_pb2.MonitoringInfo]) -> None:
        """Takes in the metrics of a bundle."""
        self._infos = (
            list(monitoring_infos.consolidate([*self._infos, *infos])) if self._infos else infos
        )

    def rows(self, count: int) -> None:
        """Notes that rows have been read."""
        self._rows += count
        now = time.monotonic()
        if now - self._reported >= _REPORT_SECONDS:
            self._reported = now
            self._send("running")

    def serialized(self) -> bytes:
        """The row's content."""
        message = beam_fn_api_pb2.ProcessBundleResponse(monitoring_infos=self._infos)
        return self._stage_id.encode() + b"\n" + message.SerializeToString()

    def finished(self) -> None:
        """Reports success."""
        self._send("finished")

    def failed(self) -> None:
        """Reports a failed attempt with what it had counted."""
        self._send("failed", metrics=self.serialized().hex())

    def _send(self, kind: str, **content: Any) -> None:
        if self._reporter is not None:
            self._reporter.send(
                kind, stage=self._stage_id, partition=self._partition, rows=self._rows, **content
            )


def parse(serialized: bytes) -> tuple[str, list[metrics_pb2.MonitoringInfo]]:
    """The stage id and the metrics of a report row."""
    stage_id, _, message = serialized.partition(b"\n")
    response = beam_fn_api_pb2.ProcessBundleResponse.FromString(message)
    return stage_id.decode(), list(response.monitoring_infos)
