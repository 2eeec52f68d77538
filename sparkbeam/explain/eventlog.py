"""Pipelines as entries of Spark's event log, for history servers and Spark's UI.

A pipeline appears as a Spark SQL query from its start to its end. The query's graph consists of the
pipeline's stages. Its text describes how they run and, after the end, their figures and warnings.
The query fails with the pipeline's error.
"""

import itertools
import logging
import time
from collections.abc import Callable, Iterable
from typing import Any

from sparkbeam.common.display_text import shortened
from sparkbeam.explain import describe
from sparkbeam.plan.model import Plan
from sparkbeam.run.run import PipelineRun
from sparkbeam.spark.capabilities import setting
from sparkbeam.upstream.spark import is_classic, post_event

_logger = logging.getLogger(__name__)

_PREFIX = "org.apache.spark.sql.execution.ui.SparkListenerSQL"
_IDS = itertools.count(1_000_000_000)
"""First query id of pipelines, beyond those of Spark's queries."""

_MOST = 100_000
_MOST_OF_ERROR = 2_000
_MOST_OF_NAME = 300


def is_on(session: Any) -> bool:
    """Return whether a session writes an event log to which pipelines can be added."""
    try:
        return is_classic(session) and setting(session, "spark.eventLog.enabled") == "true"
    except Exception:  # A session that somebody has stopped, for one.
        return False


class EventLog:
    """Writer of a run to the event log; failures are ignored.

    Args:
        session: a session with an event log, see :func:`is_on`.
    """

    def __init__(
        self,
        session: Any,
        plan: Plan,
        run: PipelineRun,
        redaction: Callable[[str], str],
        name: str,
    ) -> None:
        self._session = session
        self._plan = plan
        self._run = run
        self._redaction = redaction
        self._title = self._shown(f"Beam pipeline '{name}'", _MOST_OF_NAME)
        self._id: int | None = None

    def begin(self, *_: object) -> None:
        """Record the start of the run, or its restart."""
        if self._id is None:
            self._id = next(_IDS)
            start = {
                "rootExecutionId": self._id,
                "description": self._title,
                "details": self._title,
                "time": _millis(),
                "modifiedConfigs": {},
                "jobTags": [],
            }
            self._tell("ExecutionStart", {**start, **self._described()})

    def end(self, state: str) -> None:
        """Record the end of the run with its state."""
        if self._id is None:
            return
        error = self._shown(self._run.problem, _MOST_OF_ERROR)
        if not error and state not in ("DONE", "DRAINED"):
            error = f"The pipeline ended as {state}."
        notes = (
            f"{note.step}: {note.text}{f', {note.times} times' * (note.times > 1)}"
            for note in self._run.monitor.notes.recent()
        )
        outcome = "\n".join([f"== {state} ==", str(self._run.result.summary()), *notes])
        self._tell("AdaptiveExecutionUpdate", self._described(outcome))
        self._tell("ExecutionEnd", {"time": _millis(), "errorMessage": error})

    def _described(self, outcome: str = "") -> dict[str, Any]:
        parts = [outcome, "== Stages ==", describe.stages(self._plan, self._run.files)]
        if self._plan.streaming:
            parts.append(describe.layers(self._plan))
        text = "\n\n".join(filter(None, parts))
        return {
            "physicalPlanDescription": self._shown(text, _MOST),
            "sparkPlanInfo": _node(self._title, self._title, list(self._nodes())),
        }

    def _nodes(self) -> Iterable[dict[str, Any]]:
        """Return the stages without readers, each with its inputs nested below it, each once."""
        below: dict[str, list[str]] = {stage.id: [] for stage in self._plan.stages}
        told: set[str] = set()
        for edge in reversed(describe.edges(self._plan)):
            if edge.producer.id not in told:
                told.add(edge.producer.id)
                below[edge.reader.id].append(edge.producer.id)
        nodes: dict[str, dict[str, Any]] = {}
        for stage in self._plan.stages:
            name = self._shown(f"{stage.id}: {stage.name}", _MOST_OF_NAME)
            labels = self._shown(", ".join(stage.labels), _MOST_OF_ERROR)
            nodes[stage.id] = _node(name, labels, [nodes[id] for id in below[stage.id]])
        return (node for id, node in nodes.items() if id not in told)

    def _tell(self, kind: str, content: dict[str, Any]) -> None:
        event = {"Event": f"{_PREFIX}{kind}", "executionId": self._id, **content}
        try:
            post_event(self._session, event)
        except Exception as error:
            _logger.debug("Spark's event log rejects %s: %s", kind, error)

    def _shown(self, text: str, most: int) -> str:
        return shortened(text, most, self._redaction)


def _node(name: str, text: str, children: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "nodeName": name,
        "simpleString": text,
        "children": children,
        "metadata": {},
        "metrics": [],
    }


def _millis() -> int:
    return time.time_ns() // 1_000_000
