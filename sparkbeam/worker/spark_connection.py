"""Connection of the worker to Spark, which tells whether its task is still wanted.

Spark ends a cancelled task by closing the connection. A worker notices that
when it writes, but a bundle may run for hours before it puts anything out.
"""

import os
import select
import socket
from contextlib import suppress

from sparkbeam.upstream.spark import output_of_task

_CLOSED = select.POLLHUP | select.POLLERR | getattr(select, "POLLRDHUP", 0)


def disable_nagle(connection: socket.socket) -> None:
    """Keep either side of a connection from waiting for the acknowledgement of what it sent.

    A JVM sends a task and its rows in small parts, each after the one before it is acknowledged.
    Linux acknowledges 40 ms later, unless told otherwise, while the worker itself sends nothing.
    """
    with suppress(OSError):  # It may be one of another kind than TCP.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if hasattr(socket, "TCP_QUICKACK"):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)


def hurry_task() -> None:
    """Apply :func:`disable_nagle` to the connection of the task that the calling thread runs.

    A daemon of Spark's own, in a session of the user's, does not.
    """
    stream = output_of_task()
    if stream is None:
        return
    with suppress(OSError), socket.socket(fileno=os.dup(stream.fileno())) as connection:
        disable_nagle(connection)


class Connection:
    """Monitor of the connection of the task that the calling thread runs."""

    def __init__(self) -> None:
        self._poll = select.poll()
        stream = output_of_task()
        if stream is not None:
            self._poll.register(stream, getattr(select, "POLLRDHUP", 0))

    def is_closed(self) -> bool:
        """Return whether nobody reads the output any more; False if that is unknown."""
        return any(event & _CLOSED for _, event in self._poll.poll(0))
