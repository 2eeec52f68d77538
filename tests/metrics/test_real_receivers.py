"""What sinks send, to the programs that it is meant for, as far as they are installed.

On Debian these come with ``graphite-carbon``, ``prometheus`` and ``prometheus-pushgateway``. Any
build of an OpenTelemetry collector does that has its OTLP receiver and its debug exporter.
"""

import json
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import apache_beam as beam
import pytest
from apache_beam.metrics import Metrics
from apache_beam.options.pipeline_options import PipelineOptions
from given import counters, example, pushed, sink, with_otlp, with_prometheus
from in_process_batch import BatchRunner
from listening import free_port, free_ports
from waiting import until

HOSTILE = 'a "step"\n{of} the=worst,\tü'
ELEMENTS = 50


def counted(element: int) -> int:
    Metrics.counter("tests", "seen ones").inc()
    return element


def run(*options: str) -> None:
    """Runs a pipeline that counts its elements."""
    p = beam.Pipeline(BatchRunner(), options=PipelineOptions([*options]))
    _ = p | beam.Create(range(ELEMENTS)) | "Count them" >> beam.Map(counted)
    p.run().wait_until_finish()


@contextmanager
def running(log: Path, name: str, *arguments: str) -> Iterator[None]:
    """A program, while it runs; what it prints goes to a file."""
    program = shutil.which(name)
    if program is None:
        pytest.skip(f"needs '{name}' on the PATH")
    with (
        log.open("wb") as file,
        subprocess.Popen([program, *arguments], stdout=file, stderr=file) as process,
    ):
        try:
            yield
        finally:
            process.terminate()


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


# Graphite's carbon.


def test_carbon_keeps_the_last_values(tmp_path: Path) -> None:
    line, pickled, query = free_ports(3)
    ports = {"LINE_RECEIVER": line, "PICKLE_RECEIVER": pickled, "CACHE_QUERY": query}
    settings = {
        **dict.fromkeys(("PID_DIR", "LOG_DIR", "CONF_DIR"), tmp_path),
        **{"LOCAL_DATA_DIR": tmp_path / "whisper", "MAX_CREATES_PER_MINUTE": "inf"},
        **{f"{name}_INTERFACE": "127.0.0.1" for name in ports},
        **{f"{name}_PORT": port for name, port in ports.items()},
    }
    config = tmp_path / "carbon.conf"
    config.write_text("".join(["[cache]\n", *(f"{k} = {v}\n" for k, v in settings.items())]))
    schemas = "[all]\npattern = .*\nretentions = 1s:1h\n"
    (tmp_path / "storage-schemas.conf").write_text(schemas)
    log = tmp_path / "log"
    with running(log, "carbon-cache", "--nodaemon", f"--config={config}", "start"):
        until(lambda: b"CarbonReceiverFactory starting on" in log.read_bytes(), seconds=30)
        run(
            "--metrics_sink=graphite",
            "--metrics_graphite_host=127.0.0.1",
            f"--metrics_graphite_port={line}",
        )
        folder = tmp_path / "whisper" / "beam" / "counter" / "tests" / "seen_ones" / "Count_them"
        file = folder / "committed" / "value.wsp"
        until(file.exists, seconds=30)
        until(lambda: ELEMENTS in kept(file), seconds=30)
        assert max(kept(folder / "attempted" / "value.wsp")) >= ELEMENTS
        names = {path.name for path in (tmp_path / "whisper" / "beam").iterdir()}
        assert {"counter", "gauge"} <= names


def kept(file: Path) -> set[float]:
    """The values in a file of carbon's."""
    program = shutil.which("whisper-fetch")
    if program is None:
        pytest.skip("needs 'whisper-fetch' on the PATH")
    since = str(int(time.time()) - 600)
    command = [program, f"--from={since}", "--drop=nulls", str(file)]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {float(line.split()[1]) for line in found.splitlines()}


# Prometheus.


@with_prometheus
def test_a_server_of_prometheus_scrapes_them(tmp_path: Path) -> None:
    port = free_port()
    made = sink("prometheus", "--metrics_prometheus_address=127.0.0.1:0")
    try:
        made.write(pushed(counters(5, step=HOSTILE), counters(2, step=HOSTILE)))
        target = {"targets": [f"127.0.0.1:{made.port}"]}
        job = {"job_name": "beam", "scrape_interval": "1s", "static_configs": [target]}
        config = tmp_path / "prometheus.yml"
        config.write_text(json.dumps({"scrape_configs": [job]}))  # JSON is YAML.
        with running(
            tmp_path / "log",
            "prometheus",
            f"--config.file={config}",
            f"--storage.tsdb.path={tmp_path / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ):
            until(lambda: answers(f"http://127.0.0.1:{port}/-/ready"), seconds=60)
            until(lambda: len(queried(port, "beam_counter_total")) == 2, seconds=30)
            found = {
                (one["metric"]["result"], one["metric"]["step"]): one["value"][1]
                for one in queried(port, "beam_counter_total")
            }
            assert found == {("committed", HOSTILE): "5", ("attempted", HOSTILE): "7"}
            (up,) = queried(port, 'up{job="beam"}')
            assert up["value"][1] == "1"
    finally:
        made.close()


def queried(port: int, query: str) -> list[Any]:
    url = f"http://127.0.0.1:{port}/api/v1/query?{urlencode({'query': query})}"
    with urllib.request.urlopen(url, timeout=5) as answer:
        found: list[Any] = json.load(answer)["data"]["result"]
    return found


@with_prometheus
def test_a_push_gateway_takes_them(tmp_path: Path) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    address = f"--web.listen-address=127.0.0.1:{port}"
    with running(tmp_path / "log", "prometheus-pushgateway", address):
        until(lambda: answers(f"{url}/-/ready"), seconds=30)
        run("--metrics_sink=prometheus", f"--metrics_prometheus_gateway={url}")
        with urllib.request.urlopen(f"{url}/metrics", timeout=5) as answer:
            lines = answer.read().decode().splitlines()
    (line,) = (
        line
        for line in lines
        if line.startswith("beam_counter_total{") and 'result="committed"' in line
    )
    assert 'name="seen ones"' in line
    assert line.endswith(f" {ELEMENTS}")


# An OpenTelemetry collector.


@with_otlp
def test_a_collector_takes_them(tmp_path: Path) -> None:
    port = free_port()
    content = {
        "receivers": {"otlp": {"protocols": {"http": {"endpoint": f"127.0.0.1:{port}"}}}},
        "exporters": {"debug": {"verbosity": "detailed"}},
        "service": {
            "pipelines": {"metrics": {"receivers": ["otlp"], "exporters": ["debug"]}},
            "telemetry": {"metrics": {"level": "none"}},
        },
    }
    config = tmp_path / "collector.yml"
    config.write_text(json.dumps(content))
    log = tmp_path / "log"
    with running(log, "otelcol", f"--config=file:{config}"):
        until(lambda: "Everything is ready" in log.read_text(), seconds=30)
        endpoint = f"--metrics_otlp_endpoint=http://127.0.0.1:{port}/v1/metrics"
        run("--metrics_sink=otlp", endpoint)
        until(lambda: f"Value: {ELEMENTS}\n" in log.read_text(), seconds=30)
        sink("otlp", endpoint).write(example())
        until(lambda: "Name: beam.distribution" in log.read_text(), seconds=30)
        text = log.read_text()
    assert "name: Str(seen ones)" in text
    assert "step: Str(Count them)" in text
    assert "Name: sparkbeam.elements" in text
