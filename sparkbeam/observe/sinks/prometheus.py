"""Sink for Prometheus: an endpoint to scrape, or pushes to a push gateway."""

import socket
import time
from collections.abc import Iterable
from functools import partial
from ipaddress import ip_address
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit
from wsgiref.simple_server import WSGIRequestHandler

from apache_beam.options.pipeline_options import PipelineOptions
from prometheus_client import CollectorRegistry, make_wsgi_app, push_to_gateway
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import ThreadingWSGIServer, basic_auth_handler, default_handler
from prometheus_client.registry import Collector

from sparkbeam.common.acceptor import PAUSE_SECONDS, Full, Guests, accepted, is_at_home
from sparkbeam.common.background import background_thread
from sparkbeam.observe.sinks.metrics_sink import MetricsSink, PushedMetrics
from sparkbeam.observe.sinks.readings import COUNTER, DISTRIBUTION, readings
from sparkbeam.options.metrics_options import address
from sparkbeam.options.spark_options import SparkBeamOptions
from sparkbeam.plan.redaction import Redaction, shown_url

_SECONDS = 5.0
_REQUEST_SECONDS = 5.0
_ANSWER_SECONDS = 30.0
_MOST_SCRAPES = 32
_CLOSE_SECONDS = 0.02
"""Poll interval of the endpoint's shutdown, for which the end of a pipeline waits."""

_PARTS = ("count", "sum", "min", "max")
_JOB = "sparkbeam"


class PrometheusSink(MetricsSink):
    """Sink for ``--metrics_prometheus_address`` or ``--metrics_prometheus_gateway``."""

    def __init__(self, options: PipelineOptions) -> None:
        super().__init__(options)
        view = options.view_as(SparkBeamOptions)
        self._gateway: str | None = view.metrics_prometheus_gateway
        self._address = address(view.metrics_prometheus_address)
        self._latest = _Latest()
        self._registry = CollectorRegistry()
        self._registry.register(self._latest)
        self._server: Any = None

    @property
    def port(self) -> int | None:
        """The port of the endpoint; None while there is none."""
        return None if self._server is None else self._server.server_port

    def write(self, metrics: PushedMetrics) -> None:
        """Keep the metrics for the next scrape, or push them.

        Raises:
            OSError: the address is in use, or the gateway cannot be reached or refuses the request.
        """
        self._latest.metrics = metrics
        if self._gateway is not None:
            self._push(self._gateway)
        elif self._server is None:
            host, port = self._address
            family, *_, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            self._server = _Server(host, place[:2], family)
            self._server.set_app(make_wsgi_app(self._registry))
            serve = partial(self._server.serve_forever, _CLOSE_SECONDS)
            background_thread(serve, "sparkbeam-prometheus").start()

    def close(self) -> None:
        """Stop the endpoint; a gateway keeps its metrics."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def _push(self, gateway: str) -> None:
        parts = urlsplit(gateway)
        bare = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
        handler: Any = default_handler
        if parts.username is not None:
            user, password = unquote(parts.username), unquote(parts.password or "")
            handler = partial(basic_auth_handler, username=user, password=password)
        try:
            push_to_gateway(bare, _JOB, self._registry, timeout=_SECONDS, handler=handler)
        except (OSError, ValueError) as error:
            reason = Redaction([("address", gateway)])(str(error))
            raise ConnectionError(f"{shown_url(gateway)}: {reason}") from None


class _Quiet(WSGIRequestHandler):
    server: "_Server"
    timeout = _REQUEST_SECONDS

    def parse_request(self) -> bool:
        """Read a request, and refuse it if its Host is not a name of this machine."""
        if not super().parse_request():
            return False
        self.server.known(self.connection)
        here = ip_address(str(self.connection.getsockname()[0]).partition("%")[0])
        named = self.headers.get_all("Host", [])
        if here.is_loopback and not all(is_at_home(name, self.server.host) for name in named):
            self.send_error(403, "Unknown host")
            return False
        return True

    def log_message(self, format: str, *args: Any) -> None:
        """Silence request logs."""


class _Server(ThreadingWSGIServer):
    """HTTP server with a bounded number of connections, each for a bounded time.

    Args:
        host: the host as given by the user.
    """

    request_queue_size = 64
    daemon_threads = True
    block_on_close = False

    def __init__(self, host: str, place: Any, family: int) -> None:
        self.host = host
        self.address_family = family
        self._asking = Guests[socket.socket](_hang_up, _REQUEST_SECONDS, _MOST_SCRAPES)
        self._served = Guests[socket.socket](_hang_up, _ANSWER_SECONDS, 0, _MOST_SCRAPES)
        super().__init__(place, _Quiet)
        self.socket.setblocking(False)

    def get_request(self) -> tuple[socket.socket, Any]:
        try:
            connection = accepted(self.socket)
        except Full:
            self._asking.make_room()
            time.sleep(PAUSE_SECONDS)
            connection = None
        if connection is None:
            raise OSError("no connection")
        connection.setblocking(True)
        self._asking.enter(connection)
        return connection, ("", 0)

    def known(self, connection: socket.socket) -> None:
        """Record that a request has arrived, whose response must be read soon."""
        self._asking.leave(connection)
        self._served.enter(connection)

    def service_actions(self) -> None:
        """Close connections that take too long; called periodically."""
        self._asking.sweep()
        self._served.sweep()

    def shutdown_request(self, request: Any) -> None:
        self._asking.leave(request)
        self._served.leave(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors, as clients may send anything and disconnect at any time."""


def _hang_up(connection: socket.socket) -> None:
    """Shut a connection down; its thread closes it."""
    connection.shutdown(socket.SHUT_RDWR)


class _Latest(Collector):
    """The metrics of the last push, in the data model of Prometheus.

    Names of user metrics become labels, so that different names never collide.
    """

    metrics: PushedMetrics | None = None

    def collect(self) -> Iterable[Metric]:
        metrics = self.metrics
        return () if metrics is None else families(metrics)


def families(metrics: PushedMetrics) -> Iterable[Metric]:
    """Return metrics in the data model of Prometheus; each part of a distribution is a gauge."""
    found: dict[str, Any] = {}
    for reading in readings(metrics):
        name = reading.metric.replace(".", "_", 1)
        values = {name: reading.value}
        if "step" not in reading.labels:
            values = {name.replace("_", "_pipeline_", 1): reading.value}
        elif reading.kind == DISTRIBUTION:
            values = {f"{name}_{part}": getattr(reading.value, part) for part in _PARTS}
        for full, value in values.items():
            if full not in found:
                family = CounterMetricFamily if reading.kind == COUNTER else GaugeMetricFamily
                text = f"{full} of {'each step' if 'step' in reading.labels else 'the pipeline'}."
                found[full] = family(full, text, labels=tuple(reading.labels))
            # Labels have to be encoded as UTF-8.
            labels = [text.encode(errors="replace").decode() for text in reading.labels.values()]
            found[full].add_metric(labels, value)
    return found.values()
