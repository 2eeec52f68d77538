"""What Spark's pages call the jobs of a run."""

import os
import uuid
from collections.abc import Callable
from typing import Any

from sparkbeam.common.display_text import line, shortened
from sparkbeam.upstream.spark import is_connect

_MOST = 300


class JobNames:
    """Describes the Spark jobs that this thread starts, and keeps them in one group.

    A classic session alone offers that, to threads that have one of the JVM for themselves.

    Args:
        session: the Spark session.
        redaction: takes secrets out of what is shown.
    """

    def __init__(self, session: Any, redaction: Callable[[str], str]) -> None:
        pinned = os.environ.get("PYSPARK_PIN_THREAD", "true").lower() == "true"
        self._context = session.sparkContext if pinned and not is_connect(session) else None
        self._group = f"sparkbeam-{uuid.uuid4().hex[:12]}"
        self._redaction = redaction

    def __call__(self, text: str) -> None:
        """Says what the next jobs of this thread do."""
        if self._context is not None:
            shown = line(shortened(" ".join(text.split()), _MOST, self._redaction))
            self._context.setJobGroup(self._group, shown)
