"""Metrics of a moment as numbers with labels, for time series sinks."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from apache_beam.metrics.metric import MetricResults

from sparkbeam.observe.sinks.metrics_sink import PushedMetrics

COUNTER, DISTRIBUTION, GAUGE = "counter", "distribution", "gauge"
COMMITTED, ATTEMPTED = "committed", "attempted"

_KINDS = (
    (COUNTER, MetricResults.COUNTERS),
    (GAUGE, MetricResults.GAUGES),
    (DISTRIBUTION, MetricResults.DISTRIBUTIONS),
)


class Reading(NamedTuple):
    """A value of a metric.

    Attributes:
        metric: ``beam.counter``, ``beam.gauge`` or ``beam.distribution`` for the user's metrics, as
            their names may be any text; the name after ``sparkbeam.`` for those of the runner.
        kind: counter, distribution or gauge.
        labels: ``namespace``, ``name``, ``step`` and ``result``, committed or attempted, of a
            user's metric; those of a :class:`.RunnerMetric`.
        value: a number, or Beam's result for a distribution.
        time: the moment of the value, in seconds since the epoch.
    """

    metric: str
    kind: str
    labels: Mapping[str, str]
    value: Any
    time: float


def readings(metrics: PushedMetrics) -> Iterator[Reading]:
    """Yield the numeric values of the user's metrics, committed ones first, and of the runner's."""
    results = metrics.results.query()
    for kind, found in _KINDS:
        for metric in results[found]:
            name = metric.key.metric
            for result, value in ((COMMITTED, metric.committed), (ATTEMPTED, metric.attempted)):
                labels = {
                    "namespace": name.namespace,
                    "name": name.name,
                    "step": metric.key.step or "",
                    "result": result,
                }
                if value is None or (kind == DISTRIBUTION and not value.count):
                    continue
                if kind != GAUGE:
                    yield Reading(f"beam.{kind}", kind, labels, value, metrics.time)
                elif value.value is not None:
                    yield Reading("beam.gauge", kind, labels, value.value, float(value.timestamp))
    for own in metrics.runner:
        yield Reading(f"sparkbeam.{own.name}", own.kind, own.labels, own.value, metrics.time)
