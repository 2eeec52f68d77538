"""Metrics for the tests of sinks."""

import importlib.util
from typing import Any

import pytest
from apache_beam.metrics import monitoring_infos as infos
from apache_beam.metrics.cells import DistributionData, DistributionResult, GaugeData, GaugeResult
from apache_beam.metrics.execution import MetricKey, MetricResult
from apache_beam.metrics.metric import MetricResults
from apache_beam.metrics.metricbase import MetricName

from sparkbeam import SparkBeamOptions
from sparkbeam.observe.sinks.metrics_sink import PushedMetrics, RunnerMetric, RunnerMetricKind
from sparkbeam.observe.sinks.sink_factory import sinks_of
from sparkbeam.observe.views.metric_results import SparkMetrics

COUNTER, GAUGE = RunnerMetricKind
STAMP: Any = 345_862.8

with_prometheus = pytest.mark.skipif(
    importlib.util.find_spec("prometheus_client") is None, reason="needs prometheus_client"
)
with_otlp = pytest.mark.skipif(
    importlib.util.find_spec("opentelemetry") is None, reason="needs opentelemetry"
)


def sink(name: str, *options: str) -> Any:
    """The sink that options name."""
    ((_, made),) = sinks_of(SparkBeamOptions([f"--metrics_sink={name}", *options]))
    return made


def example(*, committed: bool = True) -> PushedMetrics:
    """The metrics of Beam Java's own tests of its sinks."""
    return PushedMetrics(_Results(committed), (), 1_000_000.5)


class _Results(MetricResults):
    def __init__(self, committed: bool) -> None:
        self._committed = committed

    def query(self, filter: Any = None) -> dict[str, list[MetricResult]]:
        counter = self._result("n1", "s1", 10, 20)
        distribution = self._result(
            "n2",
            "s2",
            DistributionResult(DistributionData(10, 2, 5, 8)),
            DistributionResult(DistributionData(25, 4, 3, 9)),
        )
        gauge = self._result(
            "n3", "s3", GaugeResult(GaugeData(100, STAMP)), GaugeResult(GaugeData(120, STAMP))
        )
        return {
            self.COUNTERS: [counter],
            self.DISTRIBUTIONS: [distribution],
            self.GAUGES: [gauge],
            self.STRINGSETS: [],
            self.BOUNDED_TRIES: [],
        }

    def _result(self, name: str, step: str, committed: Any, attempted: Any) -> MetricResult:
        key = MetricKey(step, MetricName("ns1", name))
        return MetricResult(key, committed if self._committed else None, attempted)


def pushed(committed: Any, uncommitted: Any = (), *runner: RunnerMetric) -> PushedMetrics:
    """Metrics at a moment near the epoch."""
    return PushedMetrics(SparkMetrics([*committed], [*uncommitted]), runner, 1_000_000.5)


def counters(count: int = 1, *, namespace: str = "ns", name: str = "n", step: str = "s") -> Any:
    """One counter."""
    return [infos.int64_user_counter(namespace, name, count, ptransform=step)]
