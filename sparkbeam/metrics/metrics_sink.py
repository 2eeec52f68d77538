"""Where the metrics of a running pipeline are pushed to: the base of all sinks."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum

from apache_beam.metrics.metric import MetricResults
from apache_beam.options.pipeline_options import PipelineOptions


class RunnerMetricKind(StrEnum):
    """What a metric of the runner is."""

    COUNTER = "counter"
    """It only grows while the pipeline runs."""

    GAUGE = "gauge"
    """It goes up and down."""


@dataclass(frozen=True)
class RunnerMetric:
    """What the runner itself has to tell of a pipeline.

    Attributes:
        kind: how it changes.
        name: such as ``output_watermark_ms``; docs/metrics.md lists them.
        step: the labels of the transforms that run fused; empty for the whole pipeline.
        value: a whole number; the name ends with its unit where it has one.
        partition: of an event hub, its number; empty for what is of none.
    """

    kind: RunnerMetricKind
    name: str
    step: str
    value: int
    partition: str = ""

    @property
    def labels(self) -> dict[str, str]:
        """What tells it from others of its name: step and partition, where it has them."""
        found = {"step": self.step, "partition": self.partition}
        return {label: text for label, text in found.items() if text}


@dataclass(frozen=True)
class PushedMetrics:
    """The metrics of a pipeline at one moment.

    Attributes:
        results: those of the user, as ``result.metrics()`` gives them.
        runner: those of the runner.
        time: the moment, in seconds since the epoch.
    """

    results: MetricResults
    runner: tuple[RunnerMetric, ...]
    time: float


class MetricsSink(ABC):
    """Takes the metrics of a pipeline, again and again while it runs and once when it has ended.

    A sink of your own is a subclass, which ``--metrics_sink=package.module.Class`` names. It lives
    on the driver, and is called from one thread of its own. What :meth:`write` raises is logged
    and tried again later; however long it takes, the pipeline does not wait for it.

    Args:
        options: of the pipeline.
    """

    def __init__(self, options: PipelineOptions) -> None:
        self.options = options

    @abstractmethod
    def write(self, metrics: PushedMetrics) -> None:
        """Takes the metrics of a moment, which have all that earlier ones had.

        Raises:
            Exception: of whatever type, where it cannot.
        """

    def close(self) -> None:  # noqa: B027 - many have nothing to close.
        """Called once when the pipeline has ended, after the last call of :meth:`write`."""
