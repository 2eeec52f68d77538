"""Metrics of a moment as numbers with labels, for time series sinks."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from apache_beam.metrics.metric import MetricResults

from sparkbeam.observe.sinks.metrics_sink import PushedMetrics, RunnerMetric
from sparkbeam.wire.reports import NAMESPACE

COUNTER, DISTRIBUTION, GAUGE = "counter", "distribution", "gauge"
COMMITTED, ATTEMPTED = "committed", "attempted"

_KINDS = (
    (COUNTER, MetricResults.COUNTERS),
    (GAUGE, MetricResults.GAUGES),
    (DISTRIBUTION, MetricResults.DISTRIBUTIONS),
)


class MetricValue(NamedTuple):
    """A value of a user's metric.

    Attributes:
        kind: counter, distribution or gauge.
        namespace, name: of the metric.
        step: the label of its transform.
        result: committed or attempted.
        value: an integer, or Beam's result for gauges and distributions.
    """

    kind: str
    namespace: str
    name: str
    step: str
    result: str
    value: Any


def readings(metrics: PushedMetrics) -> Iterator[MetricValue]:
    """Yield the numeric values of the user's metrics, committed ones first."""
    results = metrics.results.query()
    for kind, found in _KINDS:
        for metric in results[found]:
            key = metric.key
            for result, value in ((COMMITTED, metric.committed), (ATTEMPTED, metric.attempted)):
                if _is_set(kind, value):
                    name = key.metric
                    yield MetricValue(
                        kind, name.namespace, name.name, key.step or "", result, value
                    )


def of_runner(metric: RunnerMetric) -> MetricValue:
    """Return a metric of the runner in the same form, with an integer value."""
    step = "/".join(metric.labels.values())
    return MetricValue(metric.kind, NAMESPACE, metric.name, step, ATTEMPTED, metric.value)


def _is_set(kind: str, value: Any) -> bool:
    if value is None:
        return False
    if kind == GAUGE:
        return value.value is not None
    return kind == COUNTER or value.count > 0
