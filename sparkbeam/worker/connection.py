"""The worker's connection to Spark, which tells whether its task is still wanted.

Spark ends a cancelled task by closing the connection. A worker notices that
when it writes, but a bundle may run for hours before it puts anything out.
"""

import select

from sparkbeam.upstream.spark import output_of_task

_CLOSED = select.POLLHUP | select.POLLERR | getattr(select, "POLLRDHUP", 0)


class Connection:
    """Looks at the connection of the task that the calling thread runs."""

    def __init__(self) -> None:
        self._poll = select.poll()
        stream = output_of_task()
        if stream is not None:
            self._poll.register(stream, getattr(select, "POLLRDHUP", 0))

    def is_closed(self) -> bool:
        """Whether nobody waits for the output any more; False where that cannot be told."""
        return any(event & _CLOSED for _, event in self._poll.poll(0))
