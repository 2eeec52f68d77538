"""Sink that posts metrics as JSON, in the format of Beam Java's ``MetricsHttpSink``."""

import json
from datetime import UTC, datetime
from typing import Any

from apache_beam.metrics.metric import MetricResult, MetricResults
from apache_beam.options.pipeline_options import PipelineOptions

from sparkbeam.observe.sinks.metrics_sink import (
    MetricsSink,
    PushedMetrics,
    RunnerMetric,
    RunnerMetricKind,
)
from sparkbeam.observe.sinks.posting import post
from sparkbeam.options.spark_options import SparkBeamOptions
from sparkbeam.wire.reports import NAMESPACE


class HttpSink(MetricsSink):
    """Sink that posts to ``--metrics_http_sink_url``; statuses other than 200 are failures."""

    def __init__(self, options: PipelineOptions) -> None:
        super().__init__(options)
        self._url: str = options.view_as(SparkBeamOptions).metrics_http_sink_url

    def write(self, metrics: PushedMetrics) -> None:
        """Post the metrics.

        Raises:
            OSError: the server cannot be reached in time or refuses the request.
        """
        post(self._url, as_json(metrics), "application/json")


def as_json(metrics: PushedMetrics) -> bytes:
    """Serialize the metrics with sorted keys; metrics without committed value lack that key."""
    results = metrics.results.query()
    content = {
        name: [_entry(metric, value) for metric in results[kind]] for name, kind, value in _KINDS
    }
    for metric in metrics.runner:
        content[f"{metric.kind}s"].append(_of_runner(metric, metrics.time))
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode(errors="replace")


def _entry(metric: MetricResult, value: Any) -> dict[str, Any]:
    key = metric.key
    entry = {
        "attempted": value(metric.attempted),
        "name": {"name": key.metric.name, "namespace": key.metric.namespace},
        "step": key.step or "",
    }
    if metric.committed is not None:
        entry["committed"] = value(metric.committed)
    return entry


def _of_runner(metric: RunnerMetric, now: float) -> dict[str, Any]:
    is_gauge = metric.kind is RunnerMetricKind.GAUGE
    return {
        "attempted": _gauge(metric.value, now) if is_gauge else metric.value,
        "name": {"name": metric.name, "namespace": NAMESPACE},
        "step": "",
        **metric.labels,
    }


def _distribution(value: Any) -> dict[str, Any]:
    parts = {part: getattr(value, part) if value.count else None for part in ("max", "mean", "min")}
    return {"count": value.count, "sum": value.sum, **parts}


def _gauge(value: int, seconds: float) -> dict[str, Any]:
    """Return a value with its time as ISO 8601 with milliseconds."""
    stamp = datetime.fromtimestamp(round(seconds * 1000) / 1000, UTC)
    text = stamp.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {"timestamp": text, "value": value}


def _bounded_trie(value: Any) -> dict[str, Any]:
    paths = ([*parts, str(truncated).lower()] for *parts, truncated in value.flattened())
    return {"result": sorted(paths)}


_KINDS: tuple[tuple[str, str, Any], ...] = (
    ("counters", MetricResults.COUNTERS, int),
    ("distributions", MetricResults.DISTRIBUTIONS, _distribution),
    ("gauges", MetricResults.GAUGES, lambda gauge: _gauge(gauge.value, gauge.timestamp)),
    ("stringSets", MetricResults.STRINGSETS, lambda value: {"stringSet": sorted(value)}),
    ("boundedTries", MetricResults.BOUNDED_TRIES, _bounded_trie),
)
