"""Lag, factor and receive time of each partition, wherever a pipeline shows them."""

import json
import logging
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from apache_beam.metrics.metric import MetricResults
from hub_run import HubRun
from hubs import at, numbered, rows, stream

from pyspark_eventhubs.monitoring import PartitionStatus
from pyspark_eventhubs.slow_partitions import RangeRead
from pyspark_eventhubs.testing import EventHubsServer
from sparkbeam.observe.figures.micro_batch import MicroBatch
from sparkbeam.observe.figures.partitions import PartitionProgress
from sparkbeam.observe.figures.progress import (
    StageState,
    StreamingProgress,
    headline,
)
from sparkbeam.observe.page.view import of_query, partition_rows
from sparkbeam.observe.sinks import graphite, http, otlp, prometheus
from sparkbeam.observe.sinks.metrics_sink import PushedMetrics, RunnerMetric, RunnerMetricKind
from sparkbeam.observe.sinks.runner_metrics import runner_metrics
from sparkbeam.options.spark_options import SparkBeamOptions
from sparkbeam.streaming.checkpoint_files import LocalFiles
from sparkbeam.streaming.feedback import FeedbackFiles
from sparkbeam.streaming.partition_notes import NotePartitions, noted
from sparkbeam_eventhubs import SlowPartitions

pytestmark = pytest.mark.hub_partitions(4)

SEEN: list[Sequence[PartitionStatus]] = []


def remember(statuses: Sequence[PartitionStatus]) -> None:
    SEEN.append(statuses)


def fail(statuses: Sequence[PartitionStatus]) -> None:
    raise KeyError("no such dashboard")


def figures(folder: Path, number: int) -> MicroBatch:
    """What the checkpoint has of a micro-batch."""
    feedback = FeedbackFiles(LocalFiles(str(folder))).read(number)
    assert feedback is not None
    return MicroBatch.from_content(json.loads(json.dumps(feedback.summary)))


def test_a_slow_partition_shows_its_factor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: EventHubsServer
) -> None:
    SEEN.clear()
    server.slow_down("clicks", 2, 20)
    slow = SlowPartitions(0.1, monitor=remember)
    hub = HubRun(tmp_path, monkeypatch, server, slow_partitions=slow, max_events_per_trigger=40)
    for partition in range(4):
        hub.send(partition, *range(100))
    hub.go(3)
    batch = figures(tmp_path, 3)
    found = {each.partition: each for each in batch.partitions}
    assert {each.step for each in batch.partitions} == {"ReadFromEventHubs/Read"}
    assert found[2].factor < 1
    assert [found[other].factor for other in (0, 1, 3)] == [1, 1, 1]
    assert found[2].seconds > max(found[other].seconds for other in (0, 1, 3)) > 0
    assert found[0].events > found[2].events > 0
    assert sum(each.lag for each in batch.partitions) == 400 - batch.stages["s0"].total.elements
    told = SEEN[-1]
    assert [(each.partition, each.factor, each.lag) for each in told] == [
        (each.partition, each.factor, each.lag) for each in batch.partitions
    ]


PARTITIONS = (
    PartitionProgress(0, 1200, 1.0, 1000, 0.25, "Read"),
    PartitionProgress(1, 34, 0.125, 125, 61.0, "Read"),
)
PROGRESS = StreamingProgress(StageState.RUNNING, micro_batch=3, partitions=PARTITIONS)


def test_progress_and_page_tell_of_partitions() -> None:
    line = headline(PROGRESS)
    assert "1,234 events left to read, partition 1 slow, at 0.125" in line
    assert "61" not in line
    html = PROGRESS._repr_html_()
    assert "1:01 min" in html
    assert "0.125" in html
    assert partition_rows(PARTITIONS) == (
        ("Read", "0", "1,200", "1", "1,000", "0.2 s"),
        ("Read", "1", "34", "0.125", "125", "1:01 min"),
    )
    facts = dict(of_query(PROGRESS))
    assert facts["left to read"] == "1,234 events"
    assert "partition" not in headline(StreamingProgress(StageState.RUNNING, micro_batch=3))


def test_a_page_of_very_many_partitions_has_those_furthest_behind() -> None:
    many = [PartitionProgress(number, number, step="Read") for number in range(2000)]
    assert [row[1] for row in partition_rows(many)] == [str(n) for n in range(1800, 2000)]


def test_partitions_are_labels_of_pushed_metrics() -> None:
    found = {
        (metric.name, metric.partition): (metric.step, metric.value)
        for metric in runner_metrics(PROGRESS, 0)
    }
    assert found["partition_lag_events", "0"] == ("Read", 1200)
    assert found["partition_factor_permille", "1"] == ("Read", 125)
    assert found["partition_read_ms", "1"] == ("Read", 61_000)
    assert found["partition_read_events", "0"] == ("Read", 1000)
    metric = RunnerMetric(RunnerMetricKind.GAUGE, "partition_lag_events", "Read", 7, "3")
    pushed = PushedMetrics(_Nothing(), (metric,), 5.0)
    assert "partition_lag_events.Read/3.attempted.value 7 5\n" in "".join(graphite.lines(pushed))
    (gauge,) = json.loads(http.as_json(pushed))["gauges"]
    assert (gauge["step"], gauge["partition"]) == ("Read", "3")
    (family,) = prometheus.families(pushed)
    assert family.samples[0].labels == {"step": "Read", "partition": "3"}
    (scope,) = otlp.OtlpSink(SparkBeamOptions()).request(pushed).resource_metrics[0].scope_metrics
    (point,) = scope.metrics[0].gauge.data_points
    labels = {label.key: label.value.string_value for label in point.attributes}
    assert labels == {"step": "Read", "partition": "3"}


class _Nothing(MetricResults):
    def query(self, filter: Any = None) -> Any:
        kinds = ("COUNTERS", "DISTRIBUTIONS", "GAUGES", "STRINGSETS", "BOUNDED_TRIES")
        return {getattr(MetricResults, kind): [] for kind in kinds}


def base(server: EventHubsServer, **given: str) -> dict[str, str]:
    text = server.connection_string("clicks")
    return {"connectionString": text, "startingPosition": "start", **given}


def test_a_monitor_is_told_what_is_new(server: EventHubsServer) -> None:
    SEEN.clear()
    reader = stream(base(server, slowPartitionMonitor=f"{__name__}.remember"))
    start: Any = reader.initialOffset()
    for partition in range(4):
        server.send("clicks", numbered(10 * partition), partition=partition)
    end: Any = reader.latestOffset(start)
    assert [status.lag for status in SEEN[-1]] == [0, 0, 0, 0], "all of it is going to be read"
    parts: Any = reader.partitions(start, end)
    assert rows(reader, parts)
    parts[0].report.send(RangeRead(1, "3", 30, 4.5))
    reader.latestOffset(end)
    assert SEEN[-1][3] == PartitionStatus(3, 0, 1.0, 30, 4.5)
    count = len(SEEN)
    reader.latestOffset(end)
    assert len(SEEN) == count, "nothing is new"
    server.send("clicks", numbered(5), partition=0)
    reader.prepareForTriggerAvailableNow()
    server.send("clicks", numbered(7), partition=0)
    assert at(reader.latestOffset(end))["0"] == 5
    assert SEEN[-1][0].lag == 7


def test_a_monitor_that_fails_does_no_harm(
    server: EventHubsServer, caplog: pytest.LogCaptureFixture
) -> None:
    reader = stream(base(server, slowPartitionMonitor=f"{__name__}.fail"))
    start: Any = reader.initialOffset()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            server.send("clicks", numbered(10), partition=0)
            reader.latestOffset(start)
            server.send("clicks", numbered(5000), partition=0)
    assert len([r for r in caplog.records if "monitor of slow partitions" in r.message]) == 1


def test_tasks_do_without_the_module_of_a_monitor(server: EventHubsServer) -> None:
    reader = stream(base(server, slowPartitionMonitor="no.such.module"))
    assert pickle.loads(pickle.dumps(reader)) is not None


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"{}", b"[[]]", b'[["0", 1, 1.0, 1, 1.0]]', b"[" * 99, b"[7]", b"[[0, 1, true]]"],
    ids=range(8),
)
def test_a_damaged_file_tells_nothing(tmp_path: Path, content: bytes) -> None:
    kept = LocalFiles(str(tmp_path))
    NotePartitions(str(tmp_path), 5)([PartitionStatus(0, 7, 0.5, 10, 1.5)])
    assert noted(kept, 5, "Read") == (PartitionProgress(0, 7, 0.5, 10, 1.5, "Read"),)
    kept.write("partitions/5.json", content)
    assert noted(kept, 5, "Read") == ()
    assert noted(kept, 6, "Read") == ()
