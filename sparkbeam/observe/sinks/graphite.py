"""Sink that sends metrics in the plaintext protocol of Graphite.

It is the equivalent of Beam Java's ``MetricsGraphiteSink``.
"""

import re
import socket
from collections.abc import Iterator

from apache_beam.options.pipeline_options import PipelineOptions

from sparkbeam.observe.sinks.metrics_sink import MetricsSink, PushedMetrics
from sparkbeam.observe.sinks.readings import DISTRIBUTION, GAUGE, MetricValue, of_runner, readings
from sparkbeam.options.spark_options import SparkBeamOptions

_SECONDS = 5.0
_WHITESPACE = re.compile(r"\s+")


class GraphiteSink(MetricsSink):
    """Sink that connects to ``--metrics_graphite_host`` for each push."""

    def __init__(self, options: PipelineOptions) -> None:
        super().__init__(options)
        view = options.view_as(SparkBeamOptions)
        self._address = (view.metrics_graphite_host, view.metrics_graphite_port)

    def write(self, metrics: PushedMetrics) -> None:
        """Send the metrics.

        Raises:
            OSError: the server cannot be reached or is too slow.
        """
        with socket.create_connection(self._address, _SECONDS) as connection:
            connection.sendall("".join(lines(metrics)).encode(errors="replace"))
            connection.shutdown(socket.SHUT_WR)


def lines(metrics: PushedMetrics) -> Iterator[str]:
    """Yield a line per value, with the time of the push or, for gauges, of the update."""
    now = int(metrics.time)
    for reading in readings(metrics):
        if reading.kind == DISTRIBUTION:
            for part in ("min", "max", "count", "sum", "mean"):
                yield _line(reading, part, getattr(reading.value, part), now)
        elif reading.kind == GAUGE:
            yield _line(reading, "value", reading.value.value, int(reading.value.timestamp))
        else:
            yield _line(reading, "value", reading.value, now)
    for metric in metrics.runner:
        yield _line(of_runner(metric), "value", metric.value, now)


def _line(reading: MetricValue, part: str, value: float, time: int) -> str:
    nodes = ("beam", reading.kind, reading.namespace, reading.name, reading.step, reading.result)
    path = ".".join(node for node in (*nodes, part) if node)
    return f"{_WHITESPACE.sub('_', path)} {value} {time}\n"
