"""Sink that sends metrics to an OpenTelemetry collector, by binary OTLP over HTTP."""

import os
import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from apache_beam.options.pipeline_options import PipelineOptions
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
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

from sparkbeam.observe.sinks.metrics_sink import MetricsSink, PushedMetrics
from sparkbeam.observe.sinks.posting import post
from sparkbeam.observe.sinks.readings import COUNTER, DISTRIBUTION, GAUGE, Reading, readings
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
        scope = ScopeMetrics(
            scope=InstrumentationScope(name="sparkbeam", version=__version__),
            metrics=_metrics(metrics, _nanos(self._since)),
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


def _metrics(metrics: PushedMetrics, since: int) -> Iterator[Metric]:
    points: dict[tuple[str, str], list[Any]] = {}
    for reading in readings(metrics):
        points.setdefault((reading.metric, reading.kind), []).append(_point(reading, since))
    for (name, kind), found in points.items():
        if kind == COUNTER:
            # Beam's counters may be decremented.
            total = Sum(data_points=found, aggregation_temporality=_CUMULATIVE, is_monotonic=False)
            yield Metric(name=name, sum=total)
        elif kind == GAUGE:
            yield Metric(name=name, gauge=Gauge(data_points=found))
        else:
            histogram = Histogram(data_points=found, aggregation_temporality=_CUMULATIVE)
            yield Metric(name=name, histogram=histogram)


def _point(reading: Reading, since: int) -> NumberDataPoint | HistogramDataPoint:
    common: dict[str, Any] = {
        "attributes": _attributes(reading.labels),
        "start_time_unix_nano": since,
        "time_unix_nano": _nanos(reading.time),
    }
    value = reading.value
    if reading.kind != DISTRIBUTION:
        return NumberDataPoint(**common, as_int=value)
    parts = {part: getattr(value, part) for part in ("count", "sum", "min", "max")}
    return HistogramDataPoint(**common, **parts, bucket_counts=[value.count])


def _nanos(seconds: float) -> int:
    return int(seconds * 1e9)


def _attributes(labels: Mapping[str, str]) -> list[KeyValue]:
    return [
        KeyValue(key=key, value=AnyValue(string_value=text.encode(errors="replace").decode()))
        for key, text in labels.items()
    ]
