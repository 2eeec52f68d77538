"""Base of all metrics sinks, to which a running pipeline pushes its metrics."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum

from apache_beam.metrics.metric import MetricResults
from apache_beam.options.pipeline_options import PipelineOptions


class RunnerMetricKind(StrEnum):
    """The kind of a runner's metric."""

    COUNTER = "counter"
    """A value that only grows while the pipeline runs."""

    GAUGE = "gauge"
    """A value that goes up and down."""


@dataclass(frozen=True)
class RunnerMetric:
    """A metric of the runner itself.

    Attributes:
        kind: counter or gauge.
        name: such as ``output_watermark_ms``; docs/metrics.md lists all names.
        step: the labels of the fused transforms; empty for the whole pipeline.
        value: an integer; the name ends with the unit, if there is one.
        partition: the number of an event hub's partition; empty for other metrics.
    """

    kind: RunnerMetricKind
    name: str
    step: str
    value: int
    partition: str = ""

    @property
    def labels(self) -> dict[str, str]:
        """The labels that distinguish metrics of the same name: step and partition, if set."""
        found = {"step": self.step, "partition": self.partition}
        return {label: text for label, text in found.items() if text}


@dataclass(frozen=True)
class PushedMetrics:
    """The metrics of a pipeline at one moment.

    Attributes:
        results: the user's metrics, as returned by ``result.metrics()``.
        runner: the runner's metrics.
        time: the moment, in seconds since the epoch.
    """

    results: MetricResults
    runner: tuple[RunnerMetric, ...]
    time: float


class MetricsSink(ABC):
    """Receiver of a pipeline's metrics, called periodically, and once after its end.

    A custom sink is a subclass named by ``--metrics_sink=package.module.Class``. It runs on the
    driver, in a thread of its own. Exceptions of :meth:`write` are logged and the write is tried
    again later. The pipeline does not wait for it.
    """

    def __init__(self, options: PipelineOptions) -> None:
        self.options = options

    @abstractmethod
    def write(self, metrics: PushedMetrics) -> None:
        """Write the metrics of a moment, which include all earlier ones.

        Raises:
            Exception: of any type, if writing fails.
        """

    def close(self) -> None:  # noqa: B027 - many have nothing to close.
        """Release resources; called once after the pipeline's end and the last :meth:`write`."""
