"""The worker's connection to Spark, which tells whether its task is still wanted.

Spark ends a cancelled task by closing the connection. A worker notices that
when it writes, but a bundle may run for hours before it puts anything out.
"""

import select
import sys
from types import FrameType
from typing import Any

_CLOSED = select.POLLHUP | select.POLLERR | getattr(select, "POLLRDHUP", 0)


class Connection:
    """Looks at the connection of the task that the calling thread runs."""

    def __init__(self) -> None:
        self._poll = select.poll()
        stream = _stream(sys._getframe())
        if stream is not None:
            self._poll.register(stream, getattr(select, "POLLRDHUP", 0))

    def is_closed(self) -> bool:
        """Whether nobody waits for the output any more; False where that cannot be told."""
        return any(event & _CLOSED for _, event in self._poll.poll(0))


def _stream(frame: FrameType | None) -> Any:
    """The stream that PySpark's worker writes to; there is no call that would tell it."""
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("pyspark.") and (
            stream := frame.f_locals.get("outfile")
        ):
            return stream
        frame = frame.f_back
    return None
