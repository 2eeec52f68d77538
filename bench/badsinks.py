"""Sinks of metrics that refuse, hang or answer rubbish for a minute: what pipelines notice of it.

    python bench/badsinks.py
    python bench/badsinks.py --mode streaming
    python bench/badsinks.py --bad 10 --seconds 30

Four pipelines run beside each other, each for the same time, and each with a sink of its own over
HTTP: one that works, and three that do not at first. In batch their elements wait, in streaming
they come at their times. Of each the table has the seconds that the pipeline took, its result, how
many pushes its sink has taken, and the value in the last one, which has to be the result.
"""

import argparse
import json
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.window import FixedWindows

from sparkbeam import SparkBeamOptions, SparkRunner
from sparkbeam.spark import session as sessions

KINDS = ("works", "refuses", "hangs", "answers rubbish")
_WAIT = 0.25
_COUNTER = {"name": "elements", "namespace": "bench"}
_OPTIONS = ("--spark_parallelism=1", "--spark_progress=off", "--metrics_sink=http")


class Outcome(NamedTuple):
    """What became of a pipeline and of the pushes of its metrics."""

    seconds: float
    result: int
    pushes: int
    last: int


class Sink:
    """A server that takes metrics, but not before a time.

    Args:
        kind: what it does before, one of ``KINDS``.
        until: when it begins to work, by ``time.monotonic``.

    Attributes:
        port: where it is.
        values: the counter in each push that it has taken.
    """

    def __init__(self, kind: str, until: float) -> None:
        self.values: list[int] = []
        sink = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                if time.monotonic() < until and kind == "hangs":
                    time.sleep(until - time.monotonic())
                elif time.monotonic() < until and kind == "answers rubbish":
                    self.wfile.write(bytes(range(256)))
                else:
                    sink.take(self.rfile)
                    self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

        self._handler = Handler
        with socket.create_server(("127.0.0.1", 0)) as found:
            self.port = found.getsockname()[1]
        if kind != "refuses":
            self._serve()
        else:
            threading.Timer(until - time.monotonic(), self._serve).start()

    def take(self, lines: Any) -> None:
        """Reads a request."""
        length = 0
        while (line := lines.readline()) not in (b"\r\n", b""):
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        counters = json.loads(lines.read(length))["counters"]
        values = [one["attempted"] for one in counters if one["name"] == _COUNTER]
        self.values.append(values[0] if values else 0)

    def _serve(self) -> None:
        server = socketserver.ThreadingTCPServer(("127.0.0.1", self.port), self._handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()


class Counted(beam.DoFn):
    """Counts elements, and waits for each.

    Args:
        wait: so many seconds.
    """

    def __init__(self, wait: float) -> None:
        self._wait = wait

    def process(self, element: Any) -> Iterator[Any]:
        """Takes its time."""
        time.sleep(self._wait)
        Metrics.counter(_COUNTER["namespace"], _COUNTER["name"]).inc()
        yield element


def batch(pipeline: beam.Pipeline, elements: int) -> None:
    """Builds one of so many elements that wait."""
    numbers = pipeline | beam.Create([0]) | beam.FlatMap(lambda _: range(elements))
    _ = numbers | beam.ParDo(Counted(_WAIT))


def streaming(pipeline: beam.Pipeline, elements: int) -> None:
    """Builds one of so many elements that come at their times, and are counted by key."""
    start = time.time()
    impulses = PeriodicImpulse(start, start + _WAIT * (elements - 0.5), _WAIT)
    counted = pipeline | impulses | beam.ParDo(Counted(0))
    keyed = (
        counted | beam.WindowInto(FixedWindows(10)) | beam.WithKeys(lambda stamp: int(stamp) % 5)
    )
    _ = keyed | beam.combiners.Count.PerKey()


def run(
    runner: SparkRunner, sink: Sink, elements: int, build: Callable[[beam.Pipeline, int], None]
) -> Outcome:
    """Runs a pipeline of so many elements, with its metrics pushed to a sink."""
    url = f"--metrics_http_sink_url=http://127.0.0.1:{sink.port}/"
    options = PipelineOptions([*_OPTIONS, url, "--metrics_push_period=1"])
    pipeline = beam.Pipeline(runner, options)
    build(pipeline, elements)
    start = time.monotonic()
    result = pipeline.run()
    result.wait_until_finish()
    seconds = time.monotonic() - start
    (counter,) = result.metrics().query()["counters"]
    return Outcome(seconds, counter.committed, len(sink.values), sink.values[-1])


def measured(
    bad: float, seconds: float, build: Callable[[beam.Pipeline, int], None]
) -> dict[str, Outcome]:
    """The outcomes of all four, which run beside each other."""
    with session() as runner:
        run(runner, Sink("works", 0), 4, build)
        until = time.monotonic() + bad
        found: dict[str, Outcome] = {}

        def one(kind: str) -> None:
            found[kind] = run(runner, Sink(kind, until), round(seconds / _WAIT), build)

        threads = [threading.Thread(target=one, args=(kind,)) for kind in KINDS]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return {kind: found[kind] for kind in KINDS}


_MODES = {"batch": batch, "streaming": streaming}


@contextmanager
def session() -> Iterator[SparkRunner]:
    """A runner with a slot for each pipeline."""
    spark = sessions.obtain(SparkBeamOptions([f"--spark_master=local[{len(KINDS)}]"]))
    try:
        yield SparkRunner(spark)
    finally:
        spark.stop()


def main() -> None:
    """Prints a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mode", choices=[*_MODES], default="batch")
    parser.add_argument("--bad", type=float, default=60, help="seconds until the sinks work")
    parser.add_argument("--seconds", type=float, default=125, help="that each pipeline takes")
    arguments = parser.parse_args()
    print("| sink | pipeline, s | result | pushes taken | last value |\n|---|---|---|---|---|")
    for kind, one in measured(arguments.bad, arguments.seconds, _MODES[arguments.mode]).items():
        print(f"| {kind} | {one.seconds:.1f} | {one.result} | {one.pushes} | {one.last} |")


if __name__ == "__main__":
    main()
