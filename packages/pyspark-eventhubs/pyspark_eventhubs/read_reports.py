"""Durations of reads, reported by tasks to the planner on the driver.

Spark provides no channel from a task to a data source. Therefore the planner receives datagrams,
like the progress display: one per read, lost if it cannot arrive. The events of a micro-batch are
determined by Spark's log only, and are never planned again.
"""

import contextlib
import hmac
import json
import math
import secrets
import socket
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field

from pyspark_eventhubs.slow_partitions import RangeRead

LOOPBACK = "127.0.0.1"
_MOST = 10_000
_BYTES = 1 << 12


@dataclass(frozen=True)
class ReportTo:
    """Address for reports of tasks."""

    host: str
    port: int
    token: str = field(repr=False)

    def send(self, read: RangeRead) -> None:
        """Send a report; it may be lost."""
        message = json.dumps({"token": self.token, **asdict(read)}).encode()
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
        ):
            sender.setblocking(False)
            sender.sendto(message, (self.host, self.port))


class ReadReports:
    """Receiver of reports, polled by its user.

    Args:
        host: the address at which tasks reach this process.
        bind: the address to listen on; ``host`` if None.

    Raises:
        OSError: the address cannot be bound.
    """

    def __init__(self, host: str = LOOPBACK, bind: str | None = None) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        try:
            self._socket.bind((bind or host, 0))
        except OSError:
            self._socket.close()
            raise
        self.to = ReportTo(host, self._socket.getsockname()[1], secrets.token_hex(16))

    def received(self) -> Iterator[RangeRead]:
        """Yield the valid reports that have arrived; anyone may send anything."""
        with contextlib.suppress(BlockingIOError):
            for _ in range(_MOST):
                datagram = self._socket.recv(_BYTES)
                with contextlib.suppress(
                    ValueError, TypeError, KeyError, AttributeError, RecursionError
                ):
                    yield self._parsed(datagram)

    def _parsed(self, datagram: bytes) -> RangeRead:
        found = json.loads(datagram)
        if not hmac.compare_digest(found["token"].encode(), self.to.token.encode()):
            raise ValueError("wrong token")
        read = RangeRead(found["number"], found["partition"], found["events"], found["seconds"])
        numbers = read.number, read.events, read.seconds
        if list(map(type, numbers)) != [int, int, float] or not 0 <= read.seconds < math.inf:
            raise ValueError("not a report")
        if min(numbers) < 0 or type(read.partition) is not str:
            raise ValueError("not a report")
        return read

    def close(self) -> None:
        """Stop receiving."""
        self._socket.close()
