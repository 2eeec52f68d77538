"""Metrics are pushed beside a pipeline, which does not notice how that goes."""

import json
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, ClassVar

import apache_beam as beam
import pytest
from apache_beam.metrics import Metrics
from given import counters, pushed
from in_process import StreamingRunner
from in_process_batch import BatchRunner
from listening import free_port
from receivers import HttpReceiver, silent
from waiting import until

from sparkbeam import MetricsSink, PipelineFailed, PushedMetrics, SparkBeamOptions
from sparkbeam.observe.sinks import posting, pusher
from sparkbeam.observe.sinks.http import HttpSink
from sparkbeam.observe.sinks.pusher import MetricsPusher
from sparkbeam.plan.redaction import Redaction

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

import badsinks

SECRET = "p4ssw0rd"


class Own(MetricsSink):
    """Keeps what it gets."""

    made: ClassVar[list["Own"]] = []

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self.got: list[PushedMetrics] = []
        self.closed = 0
        Own.made.append(self)

    def write(self, metrics: PushedMetrics) -> None:
        assert not self.closed
        self.got.append(metrics)

    def close(self) -> None:
        self.closed += 1


class Failing(Own):
    """Fails as long as it is told to."""

    fails = True
    failed = 0

    def write(self, metrics: PushedMetrics) -> None:
        if self.fails:
            self.failed += 1
            raise RuntimeError(f"no way to http://me:{SECRET}@host?token={SECRET}")
        super().write(metrics)


@pytest.fixture(autouse=True)
def own() -> list[Own]:
    Own.made.clear()
    return Own.made


@pytest.fixture
def http() -> Iterator[HttpReceiver]:
    receiver = HttpReceiver()
    yield receiver
    receiver.close()


def pushing(
    *sinks: MetricsSink, metrics: Callable[[], PushedMetrics | None] | None = None
) -> MetricsPusher:
    named = [(f"sink{number}", sink) for number, sink in enumerate(sinks)]
    return MetricsPusher(named, metrics or (lambda: pushed(counters())), 0.05, Redaction())


def sums(runner: Any, *options: str, fail: bool = False) -> Any:
    """A pipeline that counts 50 elements."""

    def counted(element: int) -> int:
        Metrics.counter("test", "seen").inc()
        if fail and element == 49:
            raise ValueError("the last one")
        return element

    p = beam.Pipeline(runner, SparkBeamOptions([*options]))
    (
        p
        | beam.Create(range(50), reshuffle=False)
        | "Count" >> beam.Map(counted)
        | beam.GroupBy(lambda x: x % 3)
    )
    return p.run()


def seen(metrics: PushedMetrics) -> list[tuple[int | None, int]]:
    found = metrics.results.query()["counters"]
    return [(counter.committed, counter.attempted) for counter in found]


# Pipelines.


@pytest.mark.parametrize("runner", [BatchRunner, StreamingRunner])
@pytest.mark.parametrize("fails", [False, True])
def test_the_last_push_has_the_last_values(runner: Any, fails: bool, own: list[Own]) -> None:
    result = sums(runner(), "--metrics_sink=test_pusher.Own", fail=fails)
    ending: AbstractContextManager[object] = nullcontext()
    if fails:
        ending = pytest.raises(PipelineFailed)
    with ending:
        result.wait_until_finish()
    (sink,) = own
    assert seen(sink.got[-1]) == [(None if fails else 50, 50)]
    assert sink.closed == 1
    told = sink.got[-1].runner
    assert [metric.value for metric in told if metric.name == "failed_attempts"] == [int(fails)]
    elements = [m.value for m in told if m.name == "elements" and "Count" in m.step]
    assert fails or elements == [1]


def test_a_run_that_ends_while_the_pusher_starts_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    start = MetricsPusher.start

    def start_late(pusher: MetricsPusher) -> None:
        time.sleep(0.5)
        start(pusher)

    monkeypatch.setattr(MetricsPusher, "start", start_late)
    result = sums(BatchRunner(), "--metrics_sink=test_pusher.Own")
    assert result.wait_until_finish(duration=10_000) == "DONE"


def test_sinks_beside_each_other_get_the_same(own: list[Own], http: HttpReceiver) -> None:
    options = ("--metrics_sink=http", f"--metrics_http_sink_url={http.url}")
    sums(BatchRunner(), "--metrics_sink=test_pusher.Own", *options)
    content = json.loads(http.requests[-1][2])
    of_user = [c for c in content["counters"] if c["name"]["namespace"] == "test"]
    assert [(c["committed"], c["attempted"], c["step"]) for c in of_user] == [(50, 50, "Count")]
    assert seen(own[0].got[-1]) == [(50, 50)]


@pytest.mark.parametrize("how", ["refuses", "hangs", "answers rubbish"])
def test_a_bad_sink_changes_nothing_for_the_pipeline(
    how: str,
    http: HttpReceiver,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: Any,
) -> None:
    monkeypatch.setattr(posting, "_TIMEOUT", (0.2, 0.2))
    http.status = 500
    with silent() as hanging:
        port = {"refuses": free_port(), "hangs": hanging, "answers rubbish": http.port}[how]
        url = f"http://me:{SECRET}@127.0.0.1:{port}/?token={SECRET}"
        options = ("--metrics_sink=http", f"--metrics_http_sink_url={url}")
        result = sums(BatchRunner(), *options, "--metrics_push_period=0.1")
        assert result.state == "DONE"
    (counter,) = result.metrics().query()["counters"]
    assert counter.committed == 50
    assert SECRET not in caplog.text + "".join(capfd.readouterr())


# The pusher.


def test_pushes_come_at_a_fixed_rate_while_there_is_something() -> None:
    sink = Own(None)
    asked: list[int] = []

    def metrics() -> PushedMetrics | None:
        asked.append(1)
        return pushed(counters()) if len(asked) > 3 else None

    running = pushing(sink, metrics=metrics)
    running.start()
    until(lambda: len(sink.got) >= 3)
    running.close()
    assert len(asked) - len(sink.got) == 3
    assert sink.closed == 1


def test_a_failure_is_told_once_without_secrets_and_pushes_come_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sink = Failing(None)
    running = pushing(sink)
    with caplog.at_level(logging.WARNING):
        running.start()
        until(lambda: sink.failed >= 3)
        sink.fails = False
        until(lambda: len(sink.got) >= 2)
        running.close()
    (record,) = caplog.records
    assert "'sink0' failed and will be retried" in record.getMessage()
    assert SECRET not in caplog.text


@pytest.mark.parametrize("kind", badsinks.KINDS)
def test_pushes_come_back_to_a_server_that_was_bad(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(posting, "_TIMEOUT", (0.2, 0.2))
    server = badsinks.Sink(kind, time.monotonic() + 0.5)
    url = f"--metrics_http_sink_url=http://127.0.0.1:{server.port}/"
    running = pushing(HttpSink(SparkBeamOptions([url])))
    running.start()
    until(lambda: len(server.values) >= 2)
    running.close()


def test_one_that_hangs_keeps_no_other_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pusher, "_HEALTHY_SECONDS", 0.1)
    released = threading.Event()

    class Hanging(Own):
        def write(self, metrics: PushedMetrics) -> None:
            released.wait(30)

    hanging, other = Hanging(None), Own(None)
    running = pushing(hanging, other)
    running.start()
    until(lambda: len(other.got) >= 3)
    start = time.monotonic()
    running.close()
    assert other.closed == 1
    assert time.monotonic() - start < 10
    released.set()
    until(lambda: hanging.closed == 1)


def test_what_a_sink_raises_when_it_is_closed_is_told(caplog: pytest.LogCaptureFixture) -> None:
    class Unclosable(Own):
        def close(self) -> None:
            raise OSError("stuck")

    running = pushing(Unclosable(None))
    running.start()
    running.close()
    assert "OSError: stuck" in caplog.text
