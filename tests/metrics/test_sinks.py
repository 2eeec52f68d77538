"""What the sinks send, to servers that take it."""

from collections.abc import Callable, Iterator, Mapping

import pytest
from apache_beam.metrics import monitoring_infos as infos
from given import COUNTER, GAUGE, counters, example, pushed, sink, with_otlp, with_prometheus
from golden_files import Golden, sections
from google.protobuf import text_format
from listening import free_port
from receivers import GraphiteReceiver, HttpReceiver, silent
from waiting import until

from sparkbeam.observe.sinks import posting
from sparkbeam.observe.sinks.metrics_sink import PushedMetrics, RunnerMetric

SECRET = "p4ssw0rd"
HOSTILE = 'a "step"\n{of} the=worst,\tü \ud800 ' + "x" * 200
STEP = HOSTILE.replace("\ud800", "")


def runner_metrics(step: str = "Read + Count") -> tuple[RunnerMetric, ...]:
    return (RunnerMetric(COUNTER, "elements", step, 7), RunnerMetric(GAUGE, "lag_ms", "", 4200))


WORDS = infos.user_set_string("ns", "words", {"b", "a"}, ptransform="s")
MOMENTS: dict[str, PushedMetrics] = {
    "the example of Beam Java": example(),
    "nothing is committed": example(committed=False),
    "a set, and metrics of the runner": pushed([WORDS], (), *runner_metrics()),
    "odd texts and a large number": pushed(
        counters(2**63 - 3, namespace="a b", name="c\u2028d", step=STEP),
        counters(2, namespace="a b", name="c\u2028d", step=STEP),
        *runner_metrics(HOSTILE),
    ),
}


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


def compare(
    golden: Golden,
    name: str,
    sent: Callable[[PushedMetrics], str],
    varying: Mapping[str, str] | None = None,
) -> None:
    """Compares what a sink sends of each moment."""
    found = {moment: ascii_lines(sent(metrics)) for moment, metrics in MOMENTS.items()}
    golden(name, sections(found), varying)


def ascii_lines(text: str) -> list[str]:
    """Lines at whose ends nothing is lost."""
    return [ascii(line)[1:-1] for line in text.split("\n")]


# HTTP.


def test_http_posts_what_beam_java_does(http: HttpReceiver, golden: Golden) -> None:
    made = sink("http", f"--metrics_http_sink_url={http.url}")

    def sent(metrics: PushedMetrics) -> str:
        made.write(metrics)
        path, headers, body = http.requests[-1]
        return f"{path} {headers['Content-Type']}\n{body.decode()}"

    compare(golden, "http.txt", sent)


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


def test_graphite_has_a_line_for_each_value_and_one_path_of_any_text(
    graphite: GraphiteReceiver, golden: Golden
) -> None:
    options = ("--metrics_graphite_host=127.0.0.1", f"--metrics_graphite_port={graphite.port}")

    def sent(metrics: PushedMetrics) -> str:
        before = len(graphite.connections)
        sink("graphite", *options).write(metrics)
        until(lambda: len(graphite.connections) > before)
        values = graphite.connections[-1].items()
        return "\n".join(f"{path} {value:.15g} {stamp}" for path, (value, stamp) in values)

    compare(golden, "graphite.txt", sent)
    assert not graphite.errors


def test_graphite_says_that_nobody_is_there() -> None:
    options = ("--metrics_graphite_host=127.0.0.1", f"--metrics_graphite_port={free_port()}")
    with pytest.raises(ConnectionRefusedError):
        sink("graphite", *options).write(example())


# Prometheus.


@with_prometheus
def test_prometheus_scrapes_the_last_values(golden: Golden) -> None:
    import requests
    from prometheus_client.parser import text_string_to_metric_families

    made = sink("prometheus", "--metrics_prometheus_address=127.0.0.1:0")

    def sent(metrics: PushedMetrics) -> str:
        made.write(metrics)
        text = requests.get(f"http://127.0.0.1:{made.port}/metrics", timeout=5).text
        samples = [each for one in text_string_to_metric_families(text) for each in one.samples]
        return "\n".join(f"{one.name} {one.labels} {one.value:.15g}" for one in samples)

    try:
        compare(golden, "prometheus.txt", sent)
    finally:
        made.close()


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
    http: HttpReceiver, golden: Golden, monkeypatch: pytest.MonkeyPatch
) -> None:
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
        ExportMetricsServiceRequest,
    )

    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"Api-Key={SECRET}%21,x=1")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "orders")
    made = sink("otlp", f"--metrics_otlp_endpoint={http.url}")

    def sent(metrics: PushedMetrics) -> str:
        made.write(metrics)
        path, headers, body = http.requests[-1]
        assert headers["api-key"] == f"{SECRET}!"
        content = text_format.MessageToString(ExportMetricsServiceRequest.FromString(body))
        return f"{path} {headers['Content-Type']}\n{content}"

    varying = {r"start_time_unix_nano: \d+": "start_time_unix_nano: 1", r'version: ".*"': "version"}
    compare(golden, "otlp.txt", sent, varying)


@with_otlp
def test_otlp_shows_no_secret_where_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"api-key={SECRET}\n")
    made = sink("otlp", f"--metrics_otlp_endpoint=http://me:{SECRET}@127.0.0.1:{free_port()}/")
    with pytest.raises(OSError, match=r"127\.0\.0\.1") as caught:
        made.write(example())
    assert SECRET not in str(caught.value)
