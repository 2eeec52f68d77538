"""Options for pushing metrics, and their checks."""

import re
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

from sparkbeam.common import arguments
from sparkbeam.errors import ConfigurationError

SINKS = {
    "http": "sparkbeam.observe.sinks.http.HttpSink",
    "graphite": "sparkbeam.observe.sinks.graphite.GraphiteSink",
    "prometheus": "sparkbeam.observe.sinks.prometheus.PrometheusSink",
    "otlp": "sparkbeam.observe.sinks.otlp.OtlpSink",
}
"""Classes of the built-in sinks by name."""

_LEAST_SECONDS, _MOST_SECONDS = 0.05, 86_400.0
_MOST_PORT = 65_535


def _number(text: str) -> object:
    """Return a number, or the text itself if it is not a number."""
    if re.fullmatch(r"[+-]?[0-9]{1,18}", text):
        return int(text)
    return float(text) if re.fullmatch(r"[+-]?[0-9]{1,18}\.[0-9]{1,18}", text) else text


OPTIONS: dict[str, dict[str, Any]] = {
    "--metrics_sink": {
        "action": "append",
        "metavar": "SINK",
        "help": "Sinks to which metrics are pushed while the pipeline runs: http, graphite, "
        "prometheus, otlp, or package.module.Class of a sparkbeam.MetricsSink; repeatable. "
        "Default: none.",
    },
    "--metrics_push_period": {
        "type": _number,
        "default": 5,
        "metavar": "SECONDS",
        "help": "Interval between pushes of metrics.",
    },
    "--metrics_http_sink_url": {"metavar": "URL", "help": "URL to which the sink http posts."},
    "--metrics_graphite_host": {"metavar": "HOST", "help": "Server of the sink graphite."},
    "--metrics_graphite_port": {
        "type": _number,
        "default": 2003,
        "metavar": "PORT",
        "help": "Port of that server for the plaintext protocol.",
    },
    "--metrics_prometheus_address": {
        "metavar": "HOST:PORT",
        "default": "127.0.0.1:9464",
        "help": "Address at which the sink prometheus is scraped; port 0 selects any free port.",
    },
    "--metrics_prometheus_gateway": {
        "metavar": "URL",
        "help": "Prometheus push gateway to which the sink prometheus pushes instead.",
    },
    "--metrics_otlp_endpoint": {
        "metavar": "URL",
        "default": "http://localhost:4318/v1/metrics",
        "help": "URL of the OpenTelemetry collector to which the sink otlp posts.",
    },
}
"""Arguments of ``add_argument`` by option."""

_URLS = ("metrics_http_sink_url", "metrics_prometheus_gateway", "metrics_otlp_endpoint")
_NEEDED = {"http": "metrics_http_sink_url", "graphite": "metrics_graphite_host"}


def sinks(options: Any) -> Sequence[str]:
    """Return the names of the requested sinks.

    Raises:
        ConfigurationError: the option is not a list of texts.
    """
    given = options.metrics_sink
    if given is None:
        return ()
    if not isinstance(given, list | tuple):
        raise ConfigurationError(
            f"--metrics_sink must be a list of names, not {type(given).__name__}: "
            "use for example ['http']."
        )
    return given


def check(options: Any) -> None:
    """Check the values of the options.

    Raises:
        ConfigurationError: a value is wrong, or an option that a sink needs is missing.
    """
    _check_sinks(sinks(options))
    given = options.metrics_push_period
    seconds = arguments.duration("--metrics_push_period", given, "seconds", most=_MOST_SECONDS)
    if seconds < _LEAST_SECONDS:
        raise ConfigurationError(
            f"--metrics_push_period={arguments.shown(given)} is too short: use at least "
            f"{_LEAST_SECONDS} seconds."
        )
    for name in _URLS:
        if getattr(options, name) is not None:
            _check_url(f"--{name}", getattr(options, name))
    host = options.metrics_graphite_host
    if host is not None:
        arguments.text("--metrics_graphite_host", host, "use the name of a server")
    arguments.whole_number(
        "--metrics_graphite_port", options.metrics_graphite_port, least=1, most=_MOST_PORT
    )
    address(options.metrics_prometheus_address)
    for sink, name in _NEEDED.items():
        if sink in sinks(options) and getattr(options, name) is None:
            raise ConfigurationError(f"--metrics_sink={sink} needs --{name}, which is missing.")


def address(given: object) -> tuple[str, int]:
    """Return host and port of ``--metrics_prometheus_address``.

    Raises:
        ConfigurationError: the value is not an address.
    """
    name = "--metrics_prometheus_address"
    text = arguments.text(name, given, "use host:port, such as 127.0.0.1:9464")
    host, _, port = text.rpartition(":")
    if not host or not re.fullmatch("[0-9]{1,5}", port) or int(port) > _MOST_PORT:
        raise ConfigurationError(
            f"{name}={arguments.shown(text)} is not an address: "
            "use host:port, such as 127.0.0.1:9464."
        )
    return host.strip("[]"), int(port)


def addresses(options: Any) -> Iterator[tuple[str, str]]:
    """Yield the options that may hold secrets, in the form that :class:`.Redaction` takes."""
    for name in _URLS:
        if isinstance(value := getattr(options, name), str):
            yield "address", value


def _check_sinks(names: Sequence[object]) -> None:
    for name in names:
        found = arguments.text("--metrics_sink", name, f"use {arguments.listed(SINKS)}")
        parts = found.split(".")
        if found not in SINKS and (len(parts) < 2 or not all(map(str.isidentifier, parts))):
            raise ConfigurationError(
                f"--metrics_sink={arguments.shown(found)} is not a sink: use "
                f"{arguments.listed(SINKS)} or package.module.Class; repeat the option for several."
            )
        if names.count(name) > 1:
            raise ConfigurationError(f"--metrics_sink={found} is given twice: give it once.")


def _check_url(option: str, value: object) -> None:
    remedy = "use a URL such as https://host:port/path"
    url = arguments.text(option, value, remedy, secret=True)
    try:
        parts = urlsplit(url)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port
    except ValueError:
        is_url = False
    if not is_url or re.search(r"\s", url):
        raise ConfigurationError(f"{option}=… is not a valid URL: {remedy}.")
