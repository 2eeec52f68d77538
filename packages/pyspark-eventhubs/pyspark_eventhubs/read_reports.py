"""Durations of reads, reported by tasks to the planner on the driver.

Spark provides no channel from a task to a data source. Therefore the planner receives datagrams,
like the progress display: one per read, lost if it cannot arrive. The events of a micro-batch are
determined by Spark's log only, and are never planned again.
"""

import contextlib
import secrets
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from pyspark_eventhubs.slow_partitions import RangeRead
from sparkbeam.common.datagrams import LARGEST, Mailbox, opened, receiver
from sparkbeam.common.untrusted_json import parsed

LOOPBACK = "127.0.0.1"
_MOST = 10_000


@dataclass(frozen=True)
class ReportTo(Mailbox):
    """Address for reports of tasks."""

    def send(self, read: RangeRead) -> None:
        """Send a report; it may be lost."""
        self.post(asdict(read))


class ReadReports:
    """Receiver of reports, polled by its user.

    Args:
        host: the address at which tasks reach this process.
        bind: the address to listen on; ``host`` if None.

    Raises:
        OSError: the address cannot be bound.
    """

    def __init__(self, host: str = LOOPBACK, bind: str | None = None) -> None:
        self._socket = receiver(bind or host, 0)
        self.to = ReportTo(host, self._socket.getsockname()[1], secrets.token_hex(16))

    def received(self) -> Iterator[RangeRead]:
        """Yield the valid reports that have arrived; anyone may send anything."""
        with contextlib.suppress(BlockingIOError):
            for _ in range(_MOST):
                datagram = self._socket.recv(LARGEST)
                with contextlib.suppress(
                    ValueError, TypeError, KeyError, AttributeError, RecursionError
                ):
                    yield self._parsed(datagram)

    def _parsed(self, datagram: bytes) -> RangeRead:
        read = parsed(RangeRead, opened(datagram, self.to.token))
        if min(read.number, read.events, read.seconds) < 0:
            raise ValueError("not a report")
        return read

    def close(self) -> None:
        """Stop receiving."""
        self._socket.close()
