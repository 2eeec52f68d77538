"""Descriptions of a run's jobs on Spark's pages."""

import os
import uuid
from collections.abc import Callable
from typing import Any

from sparkbeam.common.display_text import line, shortened
from sparkbeam.upstream.spark import is_connect

_MOST = 300


class JobNames:
    """Describes the Spark jobs of this thread, in one job group.

    Only classic sessions support it, in threads with a JVM thread of their own.
    """

    def __init__(self, session: Any, redaction: Callable[[str], str]) -> None:
        pinned = os.environ.get("PYSPARK_PIN_THREAD", "true").lower() == "true"
        self._context = session.sparkContext if pinned and not is_connect(session) else None
        self._group = f"sparkbeam-{uuid.uuid4().hex[:12]}"
        self._redaction = redaction

    def __call__(self, text: str) -> None:
        """Describe the next jobs of this thread."""
        if self._context is not None:
            shown = line(shortened(" ".join(text.split()), _MOST, self._redaction))
            self._context.setJobGroup(self._group, shown)
