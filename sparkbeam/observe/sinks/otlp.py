"""Sink that sends metrics to an OpenTelemetry collector, by binary OTLP over HTTP."""

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from apache_beam.options.pipeline_options import PipelineOptions
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from sparkbeam.observe.sinks.metrics_sink import MetricsSink, PushedMetrics, RunnerMetricKind
from sparkbeam.observe.sinks.posting import post
from sparkbeam.observe.sinks.readings import COUNTER, GAUGE, readings
from sparkbeam.options.spark_options import SparkBeamOptions
from sparkbeam.version import __version__

_HEADERS = ("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS")
_CUMULATIVE = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE


class OtlpSink(MetricsSink):
    """Sink that posts to ``--metrics_otlp_endpoint``, with OpenTelemetry's header variables."""

    def __init__(self, options: PipelineOptions) -> None:
        super().__init__(options)
        self._url: str = options.view_as(SparkBeamOptions).metrics_otlp_endpoint
        self._headers = headers(os.environ)
        self._name = os.environ.get("OTEL_SERVICE_NAME") or "sparkbeam"
        self._since = time.time()

    def write(self, metrics: PushedMetrics) -> None:
        """Send the metrics.

        Raises:
            OSError: the collector cannot be reached in time or refuses the request.
        """
        request = self.request(metrics)
        post(self._url, request.SerializeToString(), "application/x-protobuf", self._headers)

    def request(self, metrics: PushedMetrics) -> ExportMetricsServiceRequest:
        """Return the request for some metrics."""
        since, now = (int(moment * 1e9) for moment in (self._since, metrics.time))
        scope = ScopeMetrics(
            scope=InstrumentationScope(name="sparkbeam", version=__version__),
            metrics=[*_of_user(metrics, since, now), *_of_runner(metrics, since, now)],
        )
        resource = Resource(attributes=_attributes({"service.name": self._name}))
        return ExportMetricsServiceRequest(
            resource_metrics=[ResourceMetrics(resource=resource, scope_metrics=[scope])]
        )


def headers(environment: Mapping[str, str]) -> dict[str, str]:
    """Parse the headers in OpenTelemetry's variables: ``name=value,name=value``, URL-encoded."""
    text = next((environment[name] for name in _HEADERS if environment.get(name)), "")
    pairs = (pair.partition("=") for pair in text.split(",") if "=" in pair)
    return {unquote(name).strip().lower(): unquote(value).strip() for name, _, value in pairs}


def _of_user(metrics: PushedMetrics, since: int, now: int) -> Iterator[Metric]:
    counters, gauges, distributions = [], [], []
    for kind, namespace, name, step, result, value in readings(metrics):
        labels = {"namespace": namespace, "name": name, "step": step, "result": result}
        if kind == COUNTER:
            counters.append(_number(labels, value, since, now))
        elif kind == GAUGE:
            gauges.append(_number(labels, value.value, since, int(value.timestamp * 1e9)))
        else:
            distributions.append(_distribution(labels, value, since, now))
    if counters:
        yield Metric(name="beam.counter", sum=_sum(counters))
    if gauges:
        yield Metric(name="beam.gauge", gauge=Gauge(data_points=gauges))
    if distributions:
        yield Metric(
            name="beam.distribution",
            histogram=Histogram(data_points=distributions, aggregation_temporality=_CUMULATIVE),
        )


def _of_runner(metrics: PushedMetrics, since: int, now: int) -> Iterator[Metric]:
    points: dict[tuple[RunnerMetricKind, str], list[NumberDataPoint]] = {}
    for metric in metrics.runner:
        point = _number(metric.labels, metric.value, since, now)
        points.setdefault((metric.kind, metric.name), []).append(point)
    for (kind, name), found in points.items():
        if kind is RunnerMetricKind.COUNTER:
            yield Metric(name=f"sparkbeam.{name}", sum=_sum(found))
        else:
            yield Metric(name=f"sparkbeam.{name}", gauge=Gauge(data_points=found))


def _sum(points: Iterable[NumberDataPoint]) -> Sum:
    # Beam's counters may be decremented.
    return Sum(data_points=points, aggregation_temporality=_CUMULATIVE, is_monotonic=False)


def _number(labels: Mapping[str, str], value: int, since: int, now: int) -> NumberDataPoint:
    return NumberDataPoint(
        attributes=_attributes(labels),
        start_time_unix_nano=since,
        time_unix_nano=now,
        as_int=value,
    )


def _distribution(
    labels: Mapping[str, str], value: Any, since: int, now: int
) -> HistogramDataPoint:
    return HistogramDataPoint(
        attributes=_attributes(labels),
        start_time_unix_nano=since,
        time_unix_nano=now,
        count=value.count,
        sum=value.sum,
        min=value.min,
        max=value.max,
        bucket_counts=[value.count],
    )


def _attributes(labels: Mapping[str, str]) -> list[KeyValue]:
    return [
        KeyValue(key=key, value=AnyValue(string_value=text.encode(errors="replace").decode()))
        for key, text in labels.items()
    ]
