"""How benchmarks get at Spark's own figures of a streaming query."""

from typing import Any

from sparkbeam import session


class QuerySessions:
    """The sessions that the runner makes for streaming queries, which nobody else gets to see.

    Attributes:
        made: those made since, in order.
    """

    def __init__(self) -> None:
        self.made: list[Any] = []
        self._usual = session.for_streaming
        session.for_streaming = self._make

    def _make(self, *arguments: Any) -> Any:
        self.made.append(self._usual(*arguments))
        return self.made[-1]
