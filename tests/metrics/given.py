"""Metrics for the tests of sinks."""

import importlib.util
from typing import Any

import pytest
from apache_beam.metrics import monitoring_infos as infos
from apache_beam.metrics.cells import DistributionData, GaugeData

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
    counts, sums = (10, 10), (DistributionData(10, 2, 5, 8), DistributionData(15, 2, 3, 9))
    gauges = (GaugeData(100, timestamp=STAMP), GaugeData(120, timestamp=STAMP + 1))
    done, lost = (
        [
            infos.int64_user_counter("ns1", "n1", count, ptransform="s1"),
            infos.int64_user_distribution("ns1", "n2", distribution, ptransform="s2"),
            infos.int64_user_gauge("ns1", "n3", gauge, ptransform="s3"),
        ]
        for count, distribution, gauge in zip(counts, sums, gauges, strict=True)
    )
    return pushed(done, lost) if committed else pushed([], [*done, *lost])


def pushed(committed: Any, uncommitted: Any = (), *runner: RunnerMetric) -> PushedMetrics:
    """Metrics at a moment near the epoch."""
    return PushedMetrics(SparkMetrics([*committed], [*uncommitted]), runner, 1_000_000.5)


def counters(count: int = 1, *, namespace: str = "ns", name: str = "n", step: str = "s") -> Any:
    """One counter."""
    return [infos.int64_user_counter(namespace, name, count, ptransform=step)]
