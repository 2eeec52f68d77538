"""Sink that sends metrics in the plaintext protocol of Graphite.

It is the equivalent of Beam Java's ``MetricsGraphiteSink``.
"""

import re
import socket
from collections.abc import Iterator

from apache_beam.options.pipeline_options import PipelineOptions

from sparkbeam.observe.sinks.metrics_sink import MetricsSink, PushedMetrics
from sparkbeam.observe.sinks.readings import ATTEMPTED, DISTRIBUTION, readings
from sparkbeam.options.spark_options import SparkBeamOptions
from sparkbeam.wire.reports import NAMESPACE

_SECONDS = 5.0
_WHITESPACE = re.compile(r"\s+")
_PARTS = ("min", "max", "count", "sum", "mean")


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
    for reading in readings(metrics):
        nodes = [*reading.labels.values()]
        if "result" not in reading.labels:  # It is one of the runner's.
            name = reading.metric.removeprefix(f"{NAMESPACE}.")
            nodes = [NAMESPACE, name, "/".join(nodes), ATTEMPTED]
        path = ".".join(filter(None, ["beam", reading.kind, *nodes]))
        values = {"value": reading.value}
        if reading.kind == DISTRIBUTION:
            values = {part: getattr(reading.value, part) for part in _PARTS}
        for part, value in values.items():
            yield f"{_WHITESPACE.sub('_', f'{path}.{part}')} {value} {int(reading.time)}\n"
