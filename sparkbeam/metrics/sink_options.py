"""The options of pushing metrics: what argparse is told of them, and what they may be."""

import re
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

from sparkbeam.common import arguments
from sparkbeam.errors import ConfigurationError

SINKS = ("http", "graphite", "prometheus", "otlp")
"""The sinks that come with sparkbeam."""

_MOST_SECONDS = 86_400.0
_MOST_PORT = 65_535


def _number(text: str) -> object:
    """A number, or the text that is none."""
    if re.fullmatch(r"[+-]?[0-9]{1,18}", text):
        return int(text)
    return float(text) if re.fullmatch(r"[+-]?[0-9]{1,18}\.[0-9]{1,18}", text) else text


OPTIONS: dict[str, dict[str, Any]] = {
    "--metrics_sink": {
        "action": "append",
        "metavar": "SINK",
        "help": "Where metrics are pushed to while the pipeline runs: http, graphite, prometheus, "
        "otlp, or package.module.Class of a sparkbeam.MetricsSink; repeatable. Default: nowhere.",
    },
    "--metrics_push_period": {
        "type": _number,
        "default": 5,
        "metavar": "SECONDS",
        "help": "The time from one push of metrics to the next.",
    },
    "--metrics_http_sink_url": {
        "metavar": "URL",
        "help": "Where the sink http posts to.",
    },
    "--metrics_graphite_host": {
        "metavar": "HOST",
        "help": "The server of the sink graphite.",
    },
    "--metrics_graphite_port": {
        "type": _number,
        "default": 2003,
        "metavar": "PORT",
        "help": "Its port for the plaintext protocol.",
    },
    "--metrics_prometheus_address": {
        "metavar": "HOST:PORT",
        "default": "127.0.0.1:9464",
        "help": "Where the sink prometheus is scraped; port 0 is any that is free.",
    },
    "--metrics_prometheus_gateway": {
        "metavar": "URL",
        "help": "A push gateway of Prometheus, which the sink prometheus pushes to instead.",
    },
    "--metrics_otlp_endpoint": {
        "metavar": "URL",
        "default": "http://localhost:4318/v1/metrics",
        "help": "Where the sink otlp posts to: an OpenTelemetry collector.",
    },
}
"""What argparse is told of each option."""

_URLS = ("metrics_http_sink_url", "metrics_prometheus_gateway", "metrics_otlp_endpoint")
_NEEDED = {"http": "metrics_http_sink_url", "graphite": "metrics_graphite_host"}


def sinks(options: Any) -> Sequence[str]:
    """The sinks that are asked for, by their names.

    Raises:
        ConfigurationError: they are given as something else than texts.
    """
    given = options.metrics_sink
    if given is None:
        return ()
    if not isinstance(given, list | tuple):
        raise ConfigurationError(f"--metrics_sink: {type(given).__name__} is no list of texts.")
    return given


def check(options: Any) -> None:
    """Checks the values of the options.

    Raises:
        ConfigurationError: one is wrong, or one that a sink needs is missing.
    """
    _check_sinks(sinks(options))
    _check_period(options.metrics_push_period)
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
            raise ConfigurationError(f"--metrics_sink={sink} needs --{name}: give it, too.")


def address(given: object) -> tuple[str, int]:
    """Host and port of ``--metrics_prometheus_address``.

    Raises:
        ConfigurationError: it is none.
    """
    name = "--metrics_prometheus_address"
    text = arguments.text(name, given, "use host:port, such as 127.0.0.1:9464")
    host, _, port = text.rpartition(":")
    if not host or not re.fullmatch("[0-9]{1,5}", port) or int(port) > _MOST_PORT:
        raise ConfigurationError(
            f"{name}={arguments.shown(text)} is no address: use host:port, such as 127.0.0.1:9464."
        )
    return host.strip("[]"), int(port)


def addresses(options: Any) -> Iterator[tuple[str, str]]:
    """The options that may hold secrets, as :class:`.Redaction` takes them."""
    for name in _URLS:
        if isinstance(value := getattr(options, name), str):
            yield "address", value


def _check_sinks(names: Sequence[object]) -> None:
    for name in names:
        found = arguments.text("--metrics_sink", name, f"use {arguments.listed(SINKS)}")
        parts = found.split(".")
        if found not in SINKS and (len(parts) < 2 or not all(map(str.isidentifier, parts))):
            raise ConfigurationError(
                f"--metrics_sink={arguments.shown(found)} is no sink: use "
                f"{arguments.listed(SINKS)} or package.module.Class; repeat the option for several."
            )
        if names.count(name) > 1:
            raise ConfigurationError(f"--metrics_sink={found} is given twice: give it once.")


def _check_period(value: object) -> None:
    seconds = arguments.duration("--metrics_push_period", value, "seconds", most=_MOST_SECONDS)
    if seconds < _SHORTEST:
        raise ConfigurationError(
            f"--metrics_push_period={arguments.shown(value)} is too short: use at least "
            f"{_SHORTEST} seconds."
        )


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
        raise ConfigurationError(f"{option}=… is no such URL: {remedy}.")


_SHORTEST = 0.05
