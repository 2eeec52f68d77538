"""Files that a driver writes beside its checkpoint, for watching the pipeline from another process.

They are the graph of its stages, written once, and a heartbeat about every ten seconds with data
that the checkpoint lacks: the steps, their log lines and warnings, and the final state of the run.
Each is a separate file, replaced atomically, without the secrets of the pipeline's options.
"""

import json
import logging
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any

from sparkbeam.common.background import background_thread
from sparkbeam.common.display_text import error_line, line, printable_in, shortened
from sparkbeam.common.untrusted_json import loaded
from sparkbeam.errors import CheckpointTaken
from sparkbeam.explain.stage_graph import Sketch, sketch
from sparkbeam.observe.collection.step_figures import run_summary
from sparkbeam.observe.figures.summary import StageSummary
from sparkbeam.observe.page.view import LONGEST_ERROR, LONGEST_TITLE
from sparkbeam.plan.model import Plan
from sparkbeam.plan.redaction import Redaction, redacted
from sparkbeam.run.run import PipelineRun
from sparkbeam.streaming.checkpoint_files import Files
from sparkbeam.streaming.heartbeat import SIGN, Heartbeat

_logger = logging.getLogger(__name__)

_PERIOD_SECONDS = 10.0
_LAST_SECONDS = 1.0
_GRAPH = "graph.json"


class Beacon:
    """Writer of a run's heartbeats, with a separate thread."""

    def __init__(self, plan: Plan, run: PipelineRun, redaction: Redaction, title: str) -> None:
        self._plan = plan
        self._run = run
        self._redaction = redaction
        self._files: Files | None = None
        self._started = time.time()
        self._title = line(shortened(title, LONGEST_TITLE, redaction))
        self._end: str | None = None
        self._ended = threading.Event()
        self._thread = background_thread(self._work, "sparkbeam-beacon")

    def begin(self, files: Files | None, plan: Plan) -> None:
        """Start writing heartbeats to the run's checkpoint."""
        self._plan, self._files = plan, files
        with suppress(RuntimeError):  # A run that starts again has it already.
            self._thread.start()

    def end(self, state: str) -> None:
        """Write a last heartbeat with the final state of the run; waits at most a second."""
        self._end = state
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(_LAST_SECONDS)

    def _work(self) -> None:
        told = drawn = False
        while True:
            over, files = self._ended.is_set(), self._files
            try:
                if files is not None:
                    if not drawn:
                        files.write(_GRAPH, _dumped(asdict(self._graph())))
                        drawn = True
                    files.write(SIGN, _dumped(self._sign(over=over).content()))
            except CheckpointTaken:
                pass  # The signs are those of the newer driver.
            except Exception as error:
                if not told:
                    told = True
                    _logger.warning(
                        "The data for 'sparkbeam watch' could not be written to the "
                        "checkpoint and will be retried; the pipeline continues. %s",
                        error_line(error, hide=self._redaction),
                    )
            if over:
                return
            self._ended.wait(_PERIOD_SECONDS)

    def _graph(self) -> Sketch:
        # Viewers know stages by their addresses in the checkpoint.
        stages = tuple(replace(stage, id=stage.address) for stage in self._plan.stages)
        return sketch(redacted(replace(self._plan, stages=stages), self._redaction))

    def _sign(self, *, over: bool) -> Heartbeat:
        monitor, redaction = self._run.monitor, self._redaction
        summary = run_summary(self._plan, monitor.metrics.committed_by_stage(), {}, 0)
        addresses = (stage.address for stage in self._plan.stages)
        return Heartbeat(
            written=time.time(),
            period=_PERIOD_SECONDS,
            state=(self._end or "") if over else self._run.result.state,
            over=over,
            title=self._title,
            stages={
                address: _redacted(stage, redaction)
                for address, stage in zip(addresses, summary.stages, strict=True)
            },
            notes=tuple(
                note._replace(step=redaction(note.step), text=redaction(note.text))
                for note in monitor.notes.recent()
            ),
            error=shortened(self._run.problem, LONGEST_ERROR, redaction),
            phases=monitor.phases(),
            started=self._started,
        )


def _redacted(stage: StageSummary, hide: Redaction) -> StageSummary:
    """Return the figures of a stage without secrets."""
    steps = (
        replace(
            step,
            label=hide(step.label),
            columns=hide(step.columns),
            refused={hide(reason): count for reason, count in step.refused.items()},
        )
        for step in stage.steps
    )
    return replace(stage, name=hide(stage.name), steps=tuple(steps))


def graph_of(files: Files) -> Sketch | None:
    """Return the graph left by a driver; None if there is none or it cannot be read."""
    with suppress(Exception):
        return Sketch.from_content(loaded(files.read(_GRAPH) or b""))
    return None


def _dumped(content: Mapping[str, Any]) -> bytes:
    return json.dumps(printable_in(content)).encode()
