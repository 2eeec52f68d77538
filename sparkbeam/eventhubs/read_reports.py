"""How long reads took, on the way from the tasks to the planner on the driver.

Spark has no way back from a task to a data source. So the planner listens for datagrams, as the
display of progress does: one for each read, lost where it cannot get there. Which events a
micro-batch reads is in Spark's log all the same, and is not planned twice.
"""

import contextlib
import math
import secrets
import socket
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from sparkbeam.common.datagrams import Mailbox, opened
from sparkbeam.eventhubs.slow_partitions import Read

LOOPBACK = "127.0.0.1"
_LARGEST = 1 << 16
_MOST = 10_000


@dataclass(frozen=True)
class ReportTo(Mailbox):
    """Where tasks report."""

    def send(self, read: Read) -> None:
        """Sends a report, or loses it."""
        self.post(asdict(read))


class Reports:
    """Takes reports, when it is asked for them.

    Args:
        host: at which tasks reach this process.
        bind: the address to listen at; None for that.

    Raises:
        OSError: it cannot be listened at.
    """

    def __init__(self, host: str = LOOPBACK, bind: str | None = None) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self._socket.setblocking(False)
            self._socket.bind((bind or host, 0))
        except OSError:
            self._socket.close()
            raise
        self.to = ReportTo(host, self._socket.getsockname()[1], secrets.token_hex(16))

    def take(self) -> Iterator[Read]:
        """Those that have come; anyone may send anything."""
        with contextlib.suppress(BlockingIOError):
            for _ in range(_MOST):
                datagram = self._socket.recv(_LARGEST)
                with contextlib.suppress(
                    ValueError, TypeError, KeyError, AttributeError, RecursionError
                ):
                    yield self._parsed(datagram)

    def _parsed(self, datagram: bytes) -> Read:
        read = Read(**opened(datagram, self.to.token))
        if not (
            type(read.number) is type(read.events) is int
            and type(read.partition) is str
            and type(read.seconds) is float
            and math.isfinite(read.seconds)
            and min(read.number, read.events, read.seconds) >= 0
        ):
            raise ValueError("no report")
        return read

    def close(self) -> None:
        """Takes no more."""
        self._socket.close()
