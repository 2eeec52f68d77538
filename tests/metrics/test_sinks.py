"""What the sinks send, to servers that take it."""

import json
from collections.abc import Iterator

import pytest
from apache_beam.metrics import monitoring_infos as infos
from given import COUNTER, GAUGE, counters, example, pushed, sink, with_otlp, with_prometheus
from listening import free_port
from receivers import GraphiteReceiver, HttpReceiver, silent
from waiting import until

from sparkbeam.observe.sinks import posting
from sparkbeam.observe.sinks.metrics_sink import PushedMetrics, RunnerMetric

SECRET = "p4ssw0rd"
HOSTILE = 'a "step"\n{of} the=worst,\tü \ud800 ' + "x" * 200


@pytest.fixture
def http() -> Iterator[HttpReceiver]:
    receiver = HttpReceiver()
    yield receiver
    receiver.close()


@pytest.fixture
def graphite() -> Iterator[GraphiteReceiver]:
    receiver = GraphiteReceiver()
    yield receiver
    receiver.close()


def runner_metrics(step: str = "Read + Count") -> tuple[RunnerMetric, ...]:
    return (RunnerMetric(COUNTER, "elements", step, 7), RunnerMetric(GAUGE, "lag_ms", "", 4200))


# HTTP.


def test_http_posts_what_beam_java_does(http: HttpReceiver) -> None:
    sink("http", f"--metrics_http_sink_url={http.url}").write(example())
    ((path, headers, body),) = http.requests
    assert (path, headers["Content-Type"]) == ("/metrics", "application/json")
    assert body.decode() == (
        '{"boundedTries":[],'
        '"counters":[{"attempted":20,"committed":10,"name":{"name":"n1","namespace":"ns1"},'
        '"step":"s1"}],'
        '"distributions":[{"attempted":{"count":4,"max":9,"mean":6.25,"min":3,"sum":25},'
        '"committed":{"count":2,"max":8,"mean":5.0,"min":5,"sum":10},'
        '"name":{"name":"n2","namespace":"ns1"},"step":"s2"}],'
        '"gauges":[{"attempted":{"timestamp":"1970-01-05T00:04:22.800Z","value":120},'
        '"committed":{"timestamp":"1970-01-05T00:04:22.800Z","value":100},'
        '"name":{"name":"n3","namespace":"ns1"},"step":"s3"}],'
        '"stringSets":[]}'
    )


def test_http_leaves_out_what_is_not_committed(http: HttpReceiver) -> None:
    sink("http", f"--metrics_http_sink_url={http.url}").write(example(committed=False))
    ((_, _, body),) = http.requests
    assert b'"attempted":20,"name"' in body
    assert b"committed" not in body


def test_http_takes_sets_and_tries_and_the_runner_along(http: HttpReceiver) -> None:
    some = [infos.user_set_string("ns", "words", {"b", "a"}, ptransform="s")]
    sink("http", f"--metrics_http_sink_url={http.url}").write(pushed(some, (), *runner_metrics()))
    content = json.loads(http.requests[0][2])
    assert content["stringSets"][0]["committed"] == {"stringSet": ["a", "b"]}
    assert content["counters"] == [
        {
            "attempted": 7,
            "name": {"name": "elements", "namespace": "sparkbeam"},
            "step": "Read + Count",
        }
    ]
    assert content["gauges"][0]["attempted"] == {
        "timestamp": "1970-01-12T13:46:40.500Z",
        "value": 4200,
    }


@pytest.mark.parametrize("status", [201, 204, 301, 307, 404, 500])
def test_http_takes_any_other_answer_for_a_failure(http: HttpReceiver, status: int) -> None:
    http.status, http.location = status, http.url
    with pytest.raises(OSError, match=f"status {status}, not 200"):
        sink("http", f"--metrics_http_sink_url={http.url}").write(example())
    assert len(http.requests) == 1


def test_http_names_its_password_to_the_server_alone(http: HttpReceiver) -> None:
    url = f"http://me:{SECRET}@127.0.0.1:{http.port}/in?token={SECRET}"
    sink("http", f"--metrics_http_sink_url={url}").write(example())
    assert http.requests[0][1]["Authorization"].startswith("Basic ")
    http.status = 500
    for bad in (url, url.replace(str(http.port), str(free_port()))):
        with pytest.raises(OSError, match=r"127\.0\.0\.1") as caught:
            sink("http", f"--metrics_http_sink_url={bad}").write(example())
        assert SECRET not in f"{caught.value!r} {caught.value.__context__!r}".replace(
            repr(caught.value.__context__), ""
        )


def test_http_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(posting, "_TIMEOUT", (0.2, 0.2))
    with silent() as port, pytest.raises(TimeoutError, match="did not respond in time"):
        sink("http", f"--metrics_http_sink_url=http://127.0.0.1:{port}").write(example())


# Graphite.


def sent(graphite: GraphiteReceiver, metrics: PushedMetrics) -> list[dict[str, tuple[float, int]]]:
    """The values that a server has got, for each connection."""
    options = ("--metrics_graphite_host=127.0.0.1", f"--metrics_graphite_port={graphite.port}")
    sink("graphite", *options).write(metrics)
    until(lambda: bool(graphite.connections))
    return graphite.connections


def test_graphite_has_a_line_for_each_value(graphite: GraphiteReceiver) -> None:
    (values,) = sent(graphite, example())
    assert values == {
        "beam.counter.ns1.n1.s1.committed.value": (10, 1_000_000),
        "beam.counter.ns1.n1.s1.attempted.value": (20, 1_000_000),
        "beam.gauge.ns1.n3.s3.committed.value": (100, 345_862),
        "beam.gauge.ns1.n3.s3.attempted.value": (120, 345_862),
        "beam.distribution.ns1.n2.s2.committed.min": (5, 1_000_000),
        "beam.distribution.ns1.n2.s2.committed.max": (8, 1_000_000),
        "beam.distribution.ns1.n2.s2.committed.count": (2, 1_000_000),
        "beam.distribution.ns1.n2.s2.committed.sum": (10, 1_000_000),
        "beam.distribution.ns1.n2.s2.committed.mean": (5.0, 1_000_000),
        "beam.distribution.ns1.n2.s2.attempted.min": (3, 1_000_000),
        "beam.distribution.ns1.n2.s2.attempted.max": (9, 1_000_000),
        "beam.distribution.ns1.n2.s2.attempted.count": (4, 1_000_000),
        "beam.distribution.ns1.n2.s2.attempted.sum": (25, 1_000_000),
        "beam.distribution.ns1.n2.s2.attempted.mean": (6.25, 1_000_000),
    }


def test_graphite_gets_one_path_of_any_text(graphite: GraphiteReceiver) -> None:
    hostile = counters(3, namespace="a b", name="c\u2028d", step=HOSTILE.replace("\ud800", ""))
    (values,) = sent(graphite, pushed(hostile, (), *runner_metrics(HOSTILE)))
    assert not graphite.errors
    assert values["beam.gauge.sparkbeam.lag_ms.attempted.value"] == (4200.0, 1_000_000)
    assert sum(path.startswith('beam.counter.a_b.c_d.a_"step"_') for path in values) == 2


def test_graphite_says_that_nobody_is_there() -> None:
    options = ("--metrics_graphite_host=127.0.0.1", f"--metrics_graphite_port={free_port()}")
    with pytest.raises(ConnectionRefusedError):
        sink("graphite", *options).write(example())


# Prometheus.


def scraped(*pushes: PushedMetrics) -> dict[tuple[str, tuple[str, ...]], float]:
    """The values that a server of Prometheus would take, by the name and the sorted labels."""
    import requests
    from prometheus_client.parser import text_string_to_metric_families

    made = sink("prometheus", "--metrics_prometheus_address=127.0.0.1:0")
    try:
        for metrics in pushes:
            made.write(metrics)
        text = requests.get(f"http://127.0.0.1:{made.port}/metrics", timeout=5).text
    finally:
        made.close()
    return {
        (sample.name, tuple(sample.labels[name] for name in sorted(sample.labels))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@with_prometheus
def test_prometheus_scrapes_the_last_values() -> None:
    values = scraped(
        pushed(counters(5), (), *runner_metrics(HOSTILE)),
        pushed(counters(6), counters(2), *runner_metrics(HOSTILE)),
    )
    assert values["beam_counter_total", ("n", "ns", "committed", "s")] == 6
    assert values["beam_counter_total", ("n", "ns", "attempted", "s")] == 8
    assert values["sparkbeam_pipeline_lag_ms", ()] == 4200
    (step,) = [labels for name, labels in values if name == "sparkbeam_elements_total"]
    assert step == (HOSTILE.replace("\ud800", "?"),)


@with_prometheus
def test_prometheus_has_parts_of_distributions() -> None:
    values = scraped(example())
    parts = {
        part: values[f"beam_distribution_{part}", ("n2", "ns1", "committed", "s2")]
        for part in ("count", "sum", "min", "max")
    }
    assert parts == {"count": 2, "sum": 10, "min": 5, "max": 8}
    assert values["beam_gauge", ("n3", "ns1", "attempted", "s3")] == 120


@with_prometheus
def test_prometheus_needs_an_address_of_its_own(http: HttpReceiver) -> None:
    taken = sink("prometheus", f"--metrics_prometheus_address=127.0.0.1:{http.port}")
    with pytest.raises(OSError, match="in use"):
        taken.write(example())
    taken.close()


@with_prometheus
def test_prometheus_pushes_to_a_gateway(http: HttpReceiver) -> None:
    url = f"http://me:{SECRET}@127.0.0.1:{http.port}"
    made = sink("prometheus", f"--metrics_prometheus_gateway={url}")
    made.write(pushed(counters(5)))
    ((path, headers, body),) = http.requests
    assert path == "/metrics/job/sparkbeam"
    assert headers["Authorization"].startswith("Basic ")
    assert b"beam_counter_total{" in body
    http.status = 403
    with pytest.raises(OSError, match="403") as caught:
        made.write(pushed(counters(5)))
    assert SECRET not in str(caught.value)


# OpenTelemetry.


@with_otlp
def test_otlp_posts_what_a_collector_takes(
    http: HttpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
        ExportMetricsServiceRequest,
    )

    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"Api-Key={SECRET}%21,x=1")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "orders")
    made = sink("otlp", f"--metrics_otlp_endpoint={http.url}")
    made.write(
        pushed(
            counters(2**63 - 1, step=HOSTILE.replace("\ud800", "")), (), *runner_metrics(HOSTILE)
        )
    )
    made.write(example())
    (path, headers, body), (_, _, second) = http.requests
    assert (path, headers["Content-Type"]) == ("/metrics", "application/x-protobuf")
    assert headers["api-key"] == f"{SECRET}!"
    (resource,) = ExportMetricsServiceRequest.FromString(body).resource_metrics
    assert resource.resource.attributes[0].value.string_value == "orders"
    found = {metric.name: metric for metric in resource.scope_metrics[0].metrics}
    assert set(found) == {"beam.counter", "sparkbeam.elements", "sparkbeam.lag_ms"}
    assert found["beam.counter"].sum.data_points[0].as_int == 2**63 - 1
    assert found["sparkbeam.lag_ms"].gauge.data_points[0].as_int == 4200
    (resource,) = ExportMetricsServiceRequest.FromString(second).resource_metrics
    found = {metric.name: metric for metric in resource.scope_metrics[0].metrics}
    point = found["beam.distribution"].histogram.data_points[0]
    assert (point.count, point.sum, point.min, point.max) == (2, 10, 5, 8)
    labels = {each.key: each.value.string_value for each in point.attributes}
    assert labels == {"namespace": "ns1", "name": "n2", "step": "s2", "result": "committed"}


@with_otlp
def test_otlp_shows_no_secret_where_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"api-key={SECRET}\n")
    made = sink("otlp", f"--metrics_otlp_endpoint=http://me:{SECRET}@127.0.0.1:{free_port()}/")
    with pytest.raises(OSError, match=r"127\.0\.0\.1") as caught:
        made.write(example())
    assert SECRET not in str(caught.value)
