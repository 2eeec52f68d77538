"""Beam's transforms of Pub/Sub with Google's client, against a server on loopback."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import apache_beam as beam
import page_programs
import pytest
from apache_beam.io import ReadFromPubSub, WriteToPubSub
from apache_beam.io.gcp.pubsub import (
    MultipleReadFromPubSub,
    PubsubMessage,
    PubSubSourceDescriptor,
)
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.runner import PipelineResult, PipelineState
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Timestamp
from in_process import Crashes, Spark, StreamingRunner
from in_process_batch import BatchRunner
from lines import Lines
from numbers_sink import write_numbers, written
from waiting import until

from sparkbeam import PipelineFailed
from sparkbeam_pubsub import read as pubsub_read
from sparkbeam_pubsub.watermark import SAMPLE_SECONDS, SampledWatermark

api = pytest.importorskip("google.pubsub_v1")
pubsub_server = pytest.importorskip("pubsub_server")
yaml_io = pytest.importorskip("apache_beam.yaml.yaml_io")

TOPIC = "projects/project/topics/clicks"
SUBSCRIPTION = "projects/project/subscriptions/counts"


@pytest.fixture(scope="module")
def served() -> Iterator[Any]:
    """A server, which the client of this process keeps."""
    with pubsub_server.serving() as (address, store), pytest.MonkeyPatch.context() as patch:
        patch.setenv("PUBSUB_EMULATOR_HOST", address)
        yield store


@pytest.fixture
def store(served: Any) -> Any:
    served.clear()
    return served


@pytest.fixture
def subscribed(store: Any) -> Any:
    store.subscribe(TOPIC, SUBSCRIPTION)
    return store


def publish(store: Any, *messages: tuple[bytes, dict[str, str]]) -> None:
    found = [api.PubsubMessage(data=data, attributes=named) for data, named in messages]
    store.publish(api.PublishRequest(topic=TOPIC, messages=found))


def test_a_stream_is_written(subscribed: Any) -> None:
    with beam.Pipeline(StreamingRunner()) as p:
        given = p | beam.Create([b"a", b"b"])
        _ = given | "Plain" >> WriteToPubSub(TOPIC)
        _ = given | "With an id" >> WriteToPubSub(TOPIC, id_label="id")
    found = subscribed.published[TOPIC]
    assert sorted(message.data for message in found) == [b"a", b"a", b"b", b"b"]
    assert len({message.attributes["id"] for message in found if "id" in message.attributes}) == 2


def built(folder: Path, spark: Spark | None = None) -> beam.Pipeline:
    """A pipeline over a checkpoint."""
    options = PipelineOptions([f"--checkpoint_location={folder / 'checkpoint'}"])
    return beam.Pipeline(runner=StreamingRunner(spark or Spark()), options=options)


def all_written(p: beam.Pipeline, folder: Path, count: int) -> list[int]:
    """Runs a pipeline until there are so many numbers."""
    result = p.run()
    until(lambda: len(written(folder)) == count or result.state == PipelineState.FAILED)
    result.cancel()
    return written(folder)


def start(spark: Spark, folder: Path, **given: Any) -> PipelineResult:
    """Starts to write the numbers of messages."""
    p = built(folder, spark)
    _ = p | ReadFromPubSub(**given) | beam.Map(int) | write_numbers(folder)
    return p.run()


def read(store: Any, spark: Spark, folder: Path, count: int, **given: Any) -> list[int]:
    """All numbers, once there are so many and their messages are acknowledged."""
    result = start(spark, folder, **given)
    until(
        lambda: (
            result.state == PipelineState.FAILED
            or (len(written(folder)) >= count and not any(store.waiting.values()))
        )
    )
    result.cancel()
    return written(folder)


def test_nothing_is_lost_and_an_id_is_read_once_over_runs_and_a_crash(
    subscribed: Any, tmp_path: Path
) -> None:
    numbers = [(str(n).encode(), {"id": str(n)}) for n in range(5)]
    publish(subscribed, *numbers, numbers[2])
    given: dict[str, Any] = {"subscription": SUBSCRIPTION, "id_label": "id"}
    spark = Spark(Crashes((0, "sink")), repeatable=False)
    with pytest.raises(PipelineFailed):
        start(spark, tmp_path, **given).wait_until_finish()
    assert len(subscribed.waiting[SUBSCRIPTION]) == 6
    subscribed.time_out()
    assert read(subscribed, spark, tmp_path, 5, **given) == [0, 1, 2, 3, 4]
    publish(subscribed, numbers[4], (b"7", {"id": "7"}))
    assert read(subscribed, spark, tmp_path, 6, **given) == [0, 1, 2, 3, 4, 7]


def row(message: Any, timestamp: Any = beam.DoFn.TimestampParam) -> list[Any]:
    """Describe a message."""
    names, key = sorted(message.attributes), message.ordering_key
    return [message.data.decode(), timestamp.micros, names, key]


def test_messages_that_are_written_in_batch_are_read_as_a_stream(
    subscribed: Any, tmp_path: Path
) -> None:
    with beam.Pipeline(BatchRunner()) as p:
        _ = p | beam.Create([b"plain"]) | WriteToPubSub(TOPIC)
        timed = p | "Timed" >> beam.Create([b"a", b"b"])
        stamped = timed | beam.Map(lambda data: TimestampedValue(data, 1_000_000_000.5))
        _ = stamped | "An id" >> WriteToPubSub(TOPIC, id_label="id", timestamp_attribute="at")
        ordered = p | "Ordered" >> beam.Create(
            [PubsubMessage(b"c", {"user": "ada"}, None, None, "k")]
        )
        _ = ordered | "In order" >> WriteToPubSub(TOPIC, True, "id", publish_with_ordering_key=True)
    published = {message.data: message for message in subscribed.published[TOPIC]}
    ids = {message.attributes["id"] for message in published.values() if "id" in message.attributes}
    assert len(ids) == 3
    lines = Lines(tmp_path / "lines")
    p = built(tmp_path)
    messages = p | ReadFromPubSub(None, SUBSCRIPTION, "id", True, "at")
    _ = messages | beam.Map(row) | "Note" >> beam.Map(lambda found: lines.note(json.dumps(found)))
    result = p.run()
    until(lambda: len(lines.read()) >= 4 and not subscribed.waiting[SUBSCRIPTION])
    result.cancel()
    received = {data: int(published[data].publish_time.timestamp()) for data in (b"plain", b"c")}
    found = [json.loads(line) for line in lines.read()]
    assert sorted([data, at // 10**6, *rest] for data, at, *rest in found) == [
        ["a", 1_000_000_000, ["at", "id"], ""],
        ["b", 1_000_000_000, ["at", "id"], ""],
        ["c", received[b"c"], ["id", "user"], "k"],
        ["plain", received[b"plain"], [], ""],
    ]


AVRO = {"type": "record", "name": "r", "fields": [{"name": "i", "type": "int"}]}
JSON = {"type": "object", "properties": {"i": {"type": "integer"}, "s": {"type": "string"}}}


LETTERS: list[tuple[dict[str, Any], bytes, list[bytes]]] = [
    ({"format": "STRING"}, b"", [b"\xff"]),
    ({"format": "AVRO", "schema": AVRO}, b"\x02", [b"", b"\x80\x80\x80\x80\x10"]),
    (
        {"format": "JSON", "schema": JSON},
        b'{"i": 9223372036854775807}',
        [b"{", b'{"i": 9223372036854775808}', b'{"s": "\\ud800"}', b'{"i": %s}' % (b"9" * 400)],
    ),
]


@pytest.mark.parametrize(("given", "good", "poison"), LETTERS)
def test_each_message_is_a_row_or_a_dead_letter(
    subscribed: Any, tmp_path: Path, given: dict[str, Any], good: bytes, poison: list[bytes]
) -> None:
    publish(subscribed, *((data, {}) for data in (good, *poison)))
    p = built(tmp_path)
    given = {**given, "subscription": SUBSCRIPTION, "error_handling": {"output": "bad"}}
    found = p | yaml_io.read_from_pubsub(**given)
    rows = found["good"] | "Rows" >> beam.Map(lambda _: -1)
    wrong = found["bad"] | "Wrong" >> beam.Map(lambda row: poison.index(row.element))
    _ = (rows, wrong) | beam.Flatten() | beam.Reshuffle() | write_numbers(tmp_path)
    expected = [-1, *range(len(poison))]
    assert all_written(p, tmp_path, len(expected)) == expected


def test_a_topic_is_read_by_a_subscription_of_its_own(store: Any, tmp_path: Path) -> None:
    store.to_come[TOPIC] = [api.PubsubMessage(data=b"1")] * 2
    assert read(store, Spark(), tmp_path, 2, topic=TOPIC) == [1, 1]
    (made,) = store.waiting
    assert made.startswith("projects/project/subscriptions/beam_")


def test_a_pull_ends_without_messages(subscribed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pubsub_read, "_PULL_SECONDS", 0.1)
    subscribed.wait = 0.3
    assert pubsub_read._pulled(SUBSCRIPTION) == ()


def test_windows_end_behind_the_messages_of_the_last_seconds(
    subscribed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sparkbeam_pubsub.watermark.SAMPLE_SECONDS", 1)
    publish(subscribed, *((b"click", {"at": f"{second}000"}) for second in (1, 59, 61)))
    p = built(tmp_path)
    clicks = p | ReadFromPubSub(subscription=SUBSCRIPTION, timestamp_attribute="at")
    counts = clicks | beam.WindowInto(FixedWindows(60)) | beam.combiners.Count.PerElement()
    _ = counts | beam.Values() | write_numbers(tmp_path)
    assert all_written(p, tmp_path, 2) == [1, 2]


class NotingRunner(StreamingRunner):
    """Notes the pipelines that it runs."""

    started: ClassVar[list[PipelineResult]] = []

    def run_pipeline(self, *given: Any) -> Any:
        result = super().run_pipeline(*given)
        self.started.append(result)
        return result


def test_the_program_of_the_page_runs(
    subscribed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sparkbeam_pubsub.watermark.SAMPLE_SECONDS", 1)
    clicks = ((b"ada", 1), (b"bob", 2), (b"ada", 59), (b"ada", 61))
    messages = [(user, {"id": f"{at}", "at": f"{at}000"}) for user, at in clicks]
    publish(subscribed, *messages, messages[0])
    options = [f"--runner={__name__}.{NotingRunner.__name__}"]
    options.append(f"--checkpoint_location={tmp_path / 'checkpoint'}")
    counted = "projects/project/topics/counted"
    with ThreadPoolExecutor() as threads:
        ended = threads.submit(page_programs.run, "pubsub", tmp_path, monkeypatch, options)
        until(lambda: ended.done() or len(subscribed.published.get(counted, ())) == 3)
        NotingRunner.started.pop().cancel()
        ended.result()
    found = sorted(message.data for message in subscribed.published[counted])
    assert found == [b"ada: 1", b"ada: 2", b"bob: 1"]


def test_several_subscriptions_are_one_source(subscribed: Any, tmp_path: Path) -> None:
    other = "projects/project/topics/views"
    subscribed.to_come[other] = [api.PubsubMessage(data=b"7")]
    publish(subscribed, (b"1", {}))
    sources = [PubSubSourceDescriptor(SUBSCRIPTION), PubSubSourceDescriptor(other)]
    p = built(tmp_path)
    _ = p | MultipleReadFromPubSub(sources) | beam.Map(int) | write_numbers(tmp_path)
    assert all_written(p, tmp_path, 2) == [1, 7]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"subscription": f"{SUBSCRIPTION}_gone"}, "Resource not found"),
        ({"subscription": SUBSCRIPTION, "timestamp_attribute": "at"}, "soon"),
    ],
)
def test_what_cannot_be_read_is_an_error_that_names_the_step(
    subscribed: Any, tmp_path: Path, given: dict[str, Any], message: str
) -> None:
    publish(subscribed, (b"1", {"at": "2030-01-31T09:00:01.5Z"}), (b"2", {"at": "soon"}))
    with pytest.raises(PipelineFailed, match=f"(?s)ReadFromPubSub.*{message}"):
        start(Spark(), tmp_path, **given).wait_until_finish()


def test_the_watermark_is_the_oldest_timestamp_of_the_last_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1000.0
    monkeypatch.setattr("time.time", lambda: now)
    provider = SampledWatermark()
    state = provider.initial_estimator_state(None, None)

    def watermark(*received: float, empty: bool = False) -> Timestamp:
        nonlocal state
        estimator = provider.create_watermark_estimator(state)
        for each in received:
            estimator.observe_timestamp(Timestamp(each))
        if empty:
            estimator.caught_up()
        found = estimator.current_watermark()
        state = estimator.get_estimator_state()
        return found

    # There may be a backlog.
    assert watermark() == MIN_TIMESTAMP
    assert watermark(700, 600) == MIN_TIMESTAMP
    now += SAMPLE_SECONDS
    assert watermark(650) == 650
    assert watermark(620) == 650
    now += SAMPLE_SECONDS
    assert watermark() == now - SAMPLE_SECONDS
    # After a pause there may be one again.
    now += 3600
    assert watermark(3000) == 1010
    assert watermark(empty=True) == 3000
    assert watermark() == 3000
