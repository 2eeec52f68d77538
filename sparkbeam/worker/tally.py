"""Reports of the bundles of a task, added up while it runs."""

import contextlib
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

from apache_beam.runners.worker import operations

from sparkbeam.upstream.beam import counter_of
from sparkbeam.wire.consolidation import Infos, consolidate, repeatable
from sparkbeam.wire.reports import (
    ElementCounts,
    Reporter,
    Signal,
    SignalKind,
    TaskReport,
    TaskWarning,
)
from sparkbeam.worker import captured_output
from sparkbeam.worker.output_socket import OUTPUT_SOCKET
from sparkbeam.worker.task import spark_stage

if TYPE_CHECKING:
    from sparkbeam.worker.steps.processor import StageProcessor

REPORT_SECONDS = 0.3
"""A running task sends a signal about this often."""

_METRICS_SECONDS = 1.0
"""Interval in seconds at which such a signal also has the counts so far."""

_MAX_WARNINGS = 20

_T = TypeVar("_T")


class Tally:
    """Sum of the reports of the bundles of a task.

    Args:
        stage_id: the id of the stage that the task runs.
        reporter: receives signals; None if there is no receiver, or :meth:`report_to` tells.
        repeatable: two attempts of the task are to put out the same report.
    """

    def __init__(
        self,
        stage_id: str,
        partition: int,
        reporter: Reporter | None,
        *,
        repeatable: bool = False,
        number: int = 0,
    ) -> None:
        self._repeatable = repeatable
        self._stage_id = stage_id
        self._partition = partition
        self._reporter = reporter
        self._infos: Infos = []
        self._counts = ElementCounts()
        self._bundle: Bundle | None = None
        self._lock = threading.Lock()
        self._attempt = uuid.uuid4().hex[:12]
        self._number = number
        self._spark_stage = spark_stage()
        self._in_batch = True
        self._reported = self._reported_metrics = time.monotonic()
        self._send(SignalKind.STARTED)

    def report_to(self, reporter: Reporter | None, partition: int, number: int) -> None:
        """Send signals from now on, of a task of a micro-batch.

        Args:
            reporter: receives the signals; None if there is no receiver.
            partition: tells the task from the others of the stage.
            number: the number of the micro-batch's tick.
        """
        self._reporter, self._partition, self._number = reporter, partition, number
        self._spark_stage = spark_stage()
        self._in_batch = False

    def followed(
        self, processor: "StageProcessor", items: Iterable[_T], *, resumed: bool = False
    ) -> Iterator[_T]:
        """Yield the input of a bundle, which is followed from its request for the first item.

        Until then the processor may still show the bundle before. It ends with :meth:`add`.

        Args:
            resumed: see :class:`Bundle`.
        """
        with self._lock:
            self._bundle = Bundle(processor.entry, processor.monitoring_infos, resumed=resumed)
        yield from items

    def add(self, infos: Infos) -> None:
        """Add the metrics of a bundle that has ended."""
        together = consolidate([*self._infos, *infos]) if self._infos else infos
        with self._lock:
            self._counts = self._total()
            self._infos, self._bundle = together, None

    def arrived(self, elements: int) -> None:
        """Count elements that go into the stage, but into no bundle yet."""
        with self._lock:
            self._counts = self._counts.plus(ElementCounts(elements=elements))

    def tick(self) -> None:
        """Report the progress of the task, if it is time; from any thread."""
        now = time.monotonic()
        if now - self._reported >= REPORT_SECONDS:
            self._reported = now
            report = ""
            if now - self._reported_metrics >= _METRICS_SECONDS:
                self._reported_metrics = now
                report = self._so_far()
            self._send(SignalKind.RUNNING, report)

    def finished(
        self,
        caught: Iterable[warnings.WarningMessage],
        kept: tuple[tuple[int, str], ...] = (),
    ) -> bytes:
        """Report success; return the report for the output.

        Args:
            caught: the warnings of all bundles.
            kept: the files that the task has written; see :class:`TaskReport`.
        """
        self._send(SignalKind.FINISHED, self._so_far())
        unique = dict.fromkeys(
            TaskWarning(
                f"{w.category.__module__}:{w.category.__qualname__}",
                OUTPUT_SOCKET.hide(str(w.message)),
                w.filename,
                w.lineno,
            )
            for w in caught
        )
        warned = tuple(unique)[:_MAX_WARNINGS]
        infos = repeatable(self._infos) if self._repeatable else self._infos
        written = captured_output.take_written()
        if self._repeatable:
            written = written.counted()
        tasks = (self._partition,) if self._in_batch else ()
        report = TaskReport(self._stage_id, infos, warned, self._counts, written, tasks, kept)
        return report.serialize()

    def failed(self) -> None:
        """Report a failed attempt with its counts, including the unfinished bundle."""
        self._send(SignalKind.FAILED, self._so_far())

    def _so_far(self) -> str:
        """Return the metrics in the form of a signal, with those of the running bundle."""
        if self._reporter is None:
            return ""
        with self._lock:
            infos, bundle = self._infos, self._bundle
        if bundle is not None:
            # It goes on meanwhile, or a failure has left behind what does not hold together.
            with contextlib.suppress(Exception):
                infos = consolidate([*infos, *bundle.infos()])
        return TaskReport(self._stage_id, infos).pack()

    def _send(self, kind: SignalKind, report: str = "") -> None:
        if self._reporter is None:
            return
        with self._lock:
            counts = self._total()
        self._reporter.send(
            Signal(
                kind,
                self._stage_id,
                self._partition,
                counts,
                report,
                self._attempt,
                self._number,
                self._spark_stage,
            )
        )

    def _total(self) -> ElementCounts:
        return self._counts if self._bundle is None else self._counts.plus(self._bundle.counts())


class Bundle:
    """A bundle while it runs.

    Beam counts the elements of each PCollection anyway, so to follow a bundle
    costs no more than reading the counters now and then.

    Args:
        resumed: the bundle goes on with elements that an earlier one has
            taken in and deferred.
    """

    def __init__(
        self, source: operations.Operation, infos: Callable[[], Infos], *, resumed: bool = False
    ) -> None:
        self.infos = infos
        self._elements = None if resumed else counter_of(source.receivers[0]).element_counter
        self._all = [
            counter
            for counter in source.counter_factory.get_counters()
            if str(counter.name).endswith("-ElementCount")
        ]

    def counts(self) -> ElementCounts:
        """Return the counts of elements so far."""
        elements = 0 if self._elements is None else self._elements.value()
        return ElementCounts(elements, max((counter.value() for counter in self._all), default=0))
