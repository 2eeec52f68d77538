"""Pipelines with Beam's Kafka transforms against a broker; each scenario's findings are a line.

Usage: ``kafka_program.py FOLDER SCENARIO...``, of the functions in ``SCENARIOS``.
"""

import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import apache_beam as beam
import page_programs
import pyarrow.parquet
import pytest
import test_proto_rows
import test_schema_registry
import transactions_program
from apache_beam.io.kafka import ReadFromKafka, WriteToKafka
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import managed
from apache_beam.transforms.window import FixedWindows
from broker import Broker, NoBrokerError
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from kafka_options import BASE
from schema_registry import SchemaRegistry
from transactions_program import NUMBERED, POINTS
from waiting import until
from whole import is_whole

from sparkbeam.options.spark_options import SparkBeamOptions
from sparkbeam.spark.session import obtain
from sparkbeam_kafka.client import KafkaError
from sparkbeam_kafka.transactions import TransactionWriter

SERIALIZATION = "org.apache.kafka.common.serialization."
SECURITY = ("security.protocol", "sasl.mechanism", "sasl.jaas.config")
PERSON = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "name": {"type": "string"}},
}
WINDOW, HOUR = 10, 3600
USER, PASSWORD = "reader", "geheim-4711"
NO_BROKER = "no broker: "

Record = tuple[int, bytes | None, bytes | None, int]
"""Partition, key, value, and timestamp in seconds."""


class Note:
    """Collects elements as lines of a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self, element: Any) -> None:
        with self._path.open("a") as lines:
            lines.write(json.dumps(element, default=_shown) + "\n")

    def found(self) -> list[Any]:
        if not self._path.exists():
            return []
        return [json.loads(line) for line in self._path.read_text().splitlines() if line]


def _shown(value: Any) -> Any:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


class Kafka:
    """The broker of a scenario, and what is done with it."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        self.broker = broker
        self._folder = folder
        self.login = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": USER,
            "sasl.password": PASSWORD,
        }
        self._client: dict[str, Any] = {"bootstrap.servers": broker.address, **self.login}
        self.config = {
            "bootstrap.servers": broker.address,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
            f'username="{USER}" password="{PASSWORD}";',
        }
        self.earliest = {**self.config, "auto.offset.reset": "earliest"}

    def topic(self, name: str, partitions: int = 2, **config: str) -> str:
        admin = AdminClient(self._client)
        topic = NewTopic(name, partitions, 1, config=config)
        admin.create_topics([topic])[name].result()
        return name

    def grow(self, topic: str, partitions: int) -> None:
        admin = AdminClient(self._client)
        admin.create_partitions([NewPartitions(topic, partitions)])[topic].result()

    def send(self, topic: str, records: Iterable[Record], **more: Any) -> None:
        producer = Producer(self._client)
        for partition, key, value, seconds in records:
            producer.produce(topic, value, key, partition, timestamp=seconds * 1000, **more)
        assert not producer.flush(120)

    def transact(
        self, topic: str, records: Iterable[Record], *, commits: bool, pause: float = 0
    ) -> None:
        """Send records in a transaction, with the time at which they are if they have none."""
        producer = Producer({**self._client, "transactional.id": f"of-{topic}"})
        producer.init_transactions(60)
        producer.begin_transaction()
        for partition, key, value, seconds in records:
            producer.produce(topic, value, key, partition, timestamp=seconds * 1000)
            producer.flush(60)
            time.sleep(pause)
        (producer.commit_transaction if commits else producer.abort_transaction)(60)

    def remove(self, topic: str) -> None:
        admin = AdminClient(self._client)
        admin.delete_topics([topic])[topic].result()
        time.sleep(3)  # A broker deletes it behind its answer.

    def expire(self, topic: str, offset: int) -> None:
        """Delete the records of the first partition before an offset."""
        place = TopicPartition(topic, 0, offset)
        admin = AdminClient(self._client)
        admin.delete_records([place])[place].result()

    def committed(self, topic: str, group: str, partitions: int = 2) -> list[int]:
        consumer = Consumer({**self._client, "group.id": group})
        places = [TopicPartition(topic, number) for number in range(partitions)]
        found = [place.offset for place in consumer.committed(places, 60)]
        consumer.close()
        return found

    def values(self, topic: str, partitions: int = 2) -> list[str]:
        """The values of all records in transactions that are committed."""
        settings = {"group.id": "values", "isolation.level": "read_committed"}
        consumer = Consumer({**self._client, **settings, "enable.partition.eof": True})
        consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        found: list[str] = []
        ended: set[int | None] = set()
        while len(ended) < partitions:
            message: Any = consumer.poll(60)
            if message.error() is None:
                found.append(message.value().decode())
            else:
                ended.add(message.partition())
        consumer.close()
        return found

    def note(self, name: str) -> Note:
        return Note(self._folder / name)

    def path(self, name: str) -> str:
        return str(self._folder / name)


def run(build: Callable[[beam.Pipeline], Any], *options: str) -> None:
    pipeline = beam.Pipeline(options=PipelineOptions([*BASE, *options]))
    build(pipeline)
    pipeline.run().wait_until_finish()


def run_until(
    build: Callable[[beam.Pipeline], Any], done: Callable[[], object], *options: str
) -> None:
    """Runs a pipeline without end, until something has happened."""
    pipeline = beam.Pipeline(options=PipelineOptions([*BASE, "--streaming", *options]))
    build(pipeline)
    result = pipeline.run()
    try:
        until(lambda: done() or result.state in ("FAILED", "DONE"), seconds=280)
    finally:
        result.cancel()


def numbers(partition: int, count: int, start: int = 0, first: int = 0) -> list[Record]:
    return [(partition, None, b"%d" % n, start + n) for n in range(first, first + count)]


def batch(kafka: Kafka) -> Any:
    """Keys without a value, values without a key, headers, and numbers; what is written is read."""
    topic = kafka.topic("batch")
    pairs = kafka.note("pairs")
    rows = kafka.note("rows")
    people = kafka.note("people")
    headers = [beam.Row(key="h", value=b"1"), beam.Row(key="n", value=None)]
    longs = f"{SERIALIZATION}StringSerializer", f"{SERIALIZATION}LongSerializer"

    place = {"topic": "people", "bootstrap_servers": kafka.broker.address, "format": "JSON"}
    client = {name: kafka.config[name] for name in SECURITY}

    def write(pipeline: beam.Pipeline) -> None:
        people = pipeline | "People" >> beam.Create(
            [beam.Row(id=1, name="ä"), beam.Row(id=2, name="b")]
        )
        config = {**place, "producer_config_updates": client}
        _ = people | managed.Write(managed.KAFKA, config)
        plain = [(b"k", b"v"), (None, b"w")]
        _ = pipeline | beam.Create(plain) | WriteToKafka(kafka.config, topic)
        full = beam.Row(key=b"r", value=b"x", headers=headers[:1], partition=1)
        _ = (
            pipeline
            | "Rows" >> beam.Create([full])
            | "Write rows" >> WriteToKafka(kafka.config, topic, with_headers=True)
        )
        _ = (
            pipeline
            | "Numbers" >> beam.Create([("ä", -5), (None, 2**62)])
            | "Write numbers" >> WriteToKafka(kafka.config, "numbers", *longs)
        )

    def read(pipeline: beam.Pipeline) -> None:
        config = {
            **place,
            "schema": PERSON,
            "auto_offset_reset_config": "earliest",
            "consumer_config_updates": client,
            "error_handling": {"output": "wrong"},
        }
        found = pipeline | "People" >> managed.Read(managed.KAFKA, config)
        _ = found["good"] | "Note people" >> beam.Map(lambda person: people([*person]))
        _ = found["wrong"] | "Note wrong" >> beam.Map(lambda row: people(type(row.msg).__name__))
        _ = pipeline | ReadFromKafka(kafka.earliest, [topic]) | beam.Map(pairs)
        _ = (
            pipeline
            | "Rows" >> ReadFromKafka(kafka.earliest, [topic], with_metadata=True)
            | beam.Filter(lambda row: row.headers)
            | "Fields" >> beam.Map(lambda row: [*row[:3], *row[4:6], row.headers, row.key])
            | "Note rows" >> beam.Map(rows)
        )
        _ = (
            pipeline
            | "Numbers"
            >> ReadFromKafka(
                kafka.earliest,
                ["numbers"],
                f"{SERIALIZATION}StringDeserializer",
                f"{SERIALIZATION}LongDeserializer",
            )
            | "Note numbers" >> beam.Map(pairs)
        )

    run(write)
    kafka.send("people", [(0, None, b"{", 0)])
    run(read)
    found = {"pairs": pairs, "people": people}
    return {"rows": rows.found()} | {
        name: sorted(map(str, note.found())) for name, note in found.items()
    }


def bounded(kafka: Kafka) -> Any:
    """A number of records, and what has come within a time, in a stream too."""
    topic = kafka.topic("bounded")
    kafka.send(topic, [*numbers(0, 4), *numbers(1, 4, first=4)])
    found: dict[str, Any] = {}
    for name, options in (("batch", ()), ("stream", ("--streaming",))):
        note = kafka.note(f"bounded-{name}")
        group = {**kafka.earliest, "group.id": name}

        def build(pipeline: beam.Pipeline, note: Note = note, group: Any = group) -> None:
            read = ReadFromKafka(group, [topic], max_num_records=6, commit_offset_in_finalize=True)
            _ = pipeline | read | beam.Map(note)
            rest = ReadFromKafka(kafka.earliest, [topic], max_read_time=1)
            _ = pipeline | "Rest" >> rest | "Note" >> beam.Map(note)

        run(build, *options)
        found[name] = [len(note.found()), sum(kafka.committed(topic, name))]
    topic = kafka.topic("aborted")
    for number in range(6):
        kafka.transact(topic, numbers(number % 2, 25, first=25 * number), commits=True)
        kafka.transact(topic, numbers(number % 2, 25, first=1000), commits=False)
    counts = (150, 120, 60, 1)

    def build_each(pipeline: beam.Pipeline) -> None:
        for most in counts:
            for level in ("read_committed", "read_uncommitted"):
                config = {**kafka.earliest, "isolation.level": level}
                read = ReadFromKafka(config, [topic], max_num_records=most)
                values = pipeline | f"{most} {level}" >> read
                pair = f"{most} {level}"
                _ = values | f"Note {pair}" >> beam.Map(lambda _, pair=pair: note(pair))

    note = kafka.note("aborted")
    run(build_each)
    told = note.found()
    found["aborted"] = [
        [told.count(f"{most} {level}") for most in counts]
        for level in ("read_committed", "read_uncommitted")
    ]
    return found


def opened(kafka: Kafka) -> Any:
    """Records of transactions that are open for seconds are counted in windows of a second."""
    topic = kafka.topic("opened")
    note = kafka.note("opened")
    config = {**kafka.earliest, "isolation.level": "read_committed"}
    sent: list[int] = []

    def send() -> None:
        until(lambda: note.found(), seconds=200)
        for number in range(3):
            commits = number != 1
            records = [(0, None, b"x", 0)] * 12
            kafka.transact(topic, records, commits=commits, pause=0.5)
            sent.append(len(records) * commits)

    def done() -> bool:
        return not thread.is_alive() and sum(note.found()) >= 1 + sum(sent)

    thread = threading.Thread(target=send)
    kafka.send(topic, [(1, None, b"x", int(time.time()) - 5)])
    thread.start()
    started = time.monotonic()
    build = counts(config, topic, note, window=1)
    run_until(build, lambda: done() or time.monotonic() > started + 150)
    thread.join()
    return [sum(note.found()) - 1, sum(sent)]


def recreated(kafka: Kafka) -> Any:
    """A topic that is created again, or whose records expire, over a checkpoint."""
    found: dict[str, Any] = {}
    for name, count in (("fewer", 3), ("more", 12)):
        topic = kafka.topic(name, 1)
        kafka.send(topic, numbers(0, 10))
        note = kafka.note(name)
        continued(kafka, name, note)
        kafka.remove(topic)
        kafka.topic(name, 1)
        kafka.send(topic, numbers(0, count))
        error = error_of(partial(continued, kafka, name, note))
        found[name] = [len(note.found()), error]
    topic = kafka.topic("expired", 1)
    kafka.send(topic, numbers(0, 5))
    note = kafka.note("expired")
    continued(kafka, topic, note)
    kafka.send(topic, numbers(0, 5, first=5))
    kafka.expire(topic, 8)
    error = error_of(partial(continued, kafka, topic, note, kafka.config))
    continued(kafka, topic, note)
    found["expired"] = [note.found(), error]
    return found


def continued(kafka: Kafka, topic: str, note: Note, config: Any = None) -> None:
    """Read what there is of a topic, with a checkpoint of its own."""
    place = f"--checkpoint_location={kafka.path(f'{topic}-checkpoint')}"
    build = numbers_of(config or kafka.earliest, topic, note)
    run(build, "--streaming", "--trigger=available-now", place)


def error_of(run: Callable[[], Any]) -> str:
    try:
        run()
    except Exception as error:
        return str(error)
    return ""


def poison(kafka: Kafka) -> Any:
    """A stream with dead letters goes on behind records that no row can hold."""
    topic = kafka.topic("poison", 1)
    note = kafka.note("poison")
    place = {"topic": topic, "bootstrap_servers": [kafka.broker.address], "format": "JSON"}
    client = {name: kafka.config[name] for name in SECURITY}
    config = {
        **place,
        "schema": PERSON,
        "auto_offset_reset_config": "earliest",
        "consumer_config_updates": {**client, "max.poll.records": 500},
        "error_handling": {"output": "wrong"},
    }
    values = [b'{"id": %d}' % 2**63, b'{"name": "\\ud800"}', b"{", None, b'{"id": 7}']

    def build(pipeline: beam.Pipeline) -> None:
        found = pipeline | "People" >> managed.Read(managed.KAFKA, config)
        _ = found["good"] | beam.Reshuffle() | "Good" >> beam.Map(lambda row: note(row.id))
        _ = found["wrong"] | "Shuffle" >> beam.Reshuffle() | "Bad" >> beam.Map(lambda row: note(""))

    kafka.send(topic, [(0, None, value, 0) for value in values])
    options = ("--streaming", "--trigger=available-now")
    for _ in range(2):
        run(build, *options, f"--checkpoint_location={kafka.path('poison-checkpoint')}")
        kafka.send(topic, [(0, None, b'{"id": 8}', 0)])
    return sorted(map(str, note.found()))


def groups(kafka: Kafka) -> Any:
    """A group's offsets are the start of each new pipeline, and a checkpoint's that of its own."""
    topic = kafka.topic("groups")
    note = kafka.note("groups")
    config = {**kafka.earliest, "group.id": "counts"}
    found = []
    for number, checkpoint in enumerate(["first", "second", "second"]):
        kafka.send(topic, [*numbers(0, 2, first=10 * number), *numbers(1, 1, first=10 * number)])
        build = numbers_of(config, topic, note, commit_offset_in_finalize=True)
        place = f"--checkpoint_location={kafka.path(checkpoint)}"
        run(build, "--streaming", "--trigger=available-now", place)
        found.append([sorted(note.found()), kafka.committed(topic, "counts")])
    return found


def numbers_of(
    config: dict[str, str], topic: str, note: Note, **given: Any
) -> Callable[[beam.Pipeline], None]:
    """Note the numbers of records."""

    def build(pipeline: beam.Pipeline) -> None:
        records = pipeline | "Read it" >> ReadFromKafka(config, [topic], **given)
        _ = records | beam.Map(lambda pair: int(pair[1])) | "Note" >> beam.Map(note)

    return build


def counts(
    config: dict[str, str],
    topic: str,
    note: Note,
    policy: str = ReadFromKafka.create_time_policy,
    window: int = WINDOW,
) -> Callable[[beam.Pipeline], None]:
    """Counts records in windows of their timestamps."""

    def build(pipeline: beam.Pipeline) -> None:
        read = ReadFromKafka(config, [topic], timestamp_policy=policy)
        _ = (
            pipeline
            | read
            | beam.Map(lambda pair: 1)
            | beam.WindowInto(FixedWindows(window))
            | beam.CombineGlobally(sum).without_defaults()
            | "Note" >> beam.Map(note)
        )

    return build


def page(kafka: Kafka) -> Any:
    """The program of the page counts clicks in windows, and writes the counts."""
    clicks, counted = kafka.topic("clicks"), kafka.topic("counts")
    now = int(time.time()) - HOUR
    kafka.send(clicks, [*numbers(0, 3, now), *numbers(1, 3, now), *numbers(0, 1, now + HOUR)])
    kafka.send(clicks, numbers(1, 1, now + HOUR))
    login = ", ".join(f"{name!r}: {value!r}" for name, value in kafka.config.items())
    options = ["--streaming", "--trigger=available-now", f"--checkpoint_location={kafka.path('p')}"]
    with pytest.MonkeyPatch.context() as patch:
        places = {'"bootstrap.servers": "broker:9092"': login}
        page_programs.run("kafka", Path(kafka.path(".")), patch, [*BASE, *options], places)
    note = kafka.note("page")
    run(lambda p: p | ReadFromKafka(kafka.earliest, [counted], max_num_records=1) | beam.Map(note))
    return note.found()


def encoded(kafka: Kafka) -> Any:
    """Values are protocol buffers, records of a schema registry, and JSON that stays columns."""
    note, people = kafka.note("encoded"), kafka.note("encoded-people")
    descriptors = Path(kafka.path("shop.desc"))
    descriptors.write_bytes(test_proto_rows.described().SerializeToString())
    client = {name: kafka.config[name] for name in SECURITY}
    place = {"bootstrap_servers": kafka.broker.address}
    proto = {**place, "topic": "orders", "format": "PROTO", "message_name": "shop.Order"}
    proto["file_descriptor_path"] = str(descriptors)
    clicks = [b'{"user": "u%d", "price": %d.5}' % (number % 2, number) for number in range(100)]
    kafka.topic("json")
    kafka.send("json", [(0, None, click, 0) for click in clicks])

    def write(pipeline: beam.Pipeline) -> None:
        rows = pipeline | beam.Create([beam.Row(id=7, size="LARGE", item=beam.Row(name="hat"))])
        _ = rows | managed.Write(managed.KAFKA, {**proto, "producer_config_updates": client})
        people = pipeline | "Eve" >> beam.Create([beam.Row(id=3, name="eve", sizes=[1.5])])
        updates = {"producer_config_updates": client | login}
        _ = people | "People" >> managed.Write(managed.KAFKA, avro | updates)

    with SchemaRegistry("reader:geheim") as registry:
        for schema, record in (
            (test_schema_registry.FIRST, {"id": 1, "gone": "x"}),
            (test_schema_registry.SECOND, {"id": 2, "name": "ada", "sizes": [0.5]}),
        ):
            number = registry.register("people-value", schema)
            kafka.send("avro", [(0, None, registry.encoded(number, record), 0)])
        login = {"basic.auth.user.info": "reader:geheim"}
        avro = {
            **place,
            "topic": "avro",
            "confluent_schema_registry_url": registry.url,
            "confluent_schema_registry_subject": "people-value",
        }
        run(write)
        start = {"auto_offset_reset_config": "earliest", "consumer_config_updates": client}
        pipeline = beam.Pipeline(options=PipelineOptions(BASE))
        orders = pipeline | "Orders" >> managed.Read(managed.KAFKA, {**proto, **start})
        _ = orders | "Order" >> beam.Map(lambda row: note([row.id, row.size, row.item.name]))
        found = pipeline | "People" >> managed.Read(
            managed.KAFKA, {**avro, **start, "consumer_config_updates": client | login}
        )
        _ = found | "Person" >> beam.Map(lambda row: people([*row]))
        _ = (
            pipeline
            | ReadFromKafka(kafka.earliest, ["json"])
            | "Parse" >> beam.Map(lambda record: json.loads(record[1]))
            | "Pair" >> beam.Map(lambda click: (click["user"], click["price"]))
            | "Sum" >> beam.CombinePerKey(sum)
            | "Note" >> beam.Map(note)
        )
        result: Any = pipeline.run()
        result.wait_until_finish()
    counters = result.metrics().query()["counters"]
    steps = {one.key.step: one.key.metric.name for one in counters}
    refused = [step for step, name in steps.items() if name.startswith("refused_blocks")]
    return {
        "values": sorted(map(str, note.found())),
        "people": sorted(map(str, people.found())),
        "refused": [step for step in refused if step.startswith(("Parse", "Pair"))],
    }


def transactions(kafka: Kafka) -> Any:
    """Each micro-batch is written once, over repeated tasks."""
    topic = kafka.topic("transactions")
    config = {**kafka.config, "transactional.id": "writer"}

    def writer(epoch: int) -> tuple[TransactionWriter, bool]:
        found = TransactionWriter(config, topic).with_sink_id("run")
        return found, found.open(0, epoch)

    def send(found: TransactionWriter, *values: bytes) -> None:
        for value in values:
            found.process({"key": b"k", "value": value, "headers": [{"key": "h", "value": b"1"}]})

    first, begun = writer(0)
    send(first, b"a", b"b")
    first.close(None)
    again = writer(0)[1]
    old, _ = writer(1)
    send(old, b"c")
    new, _ = writer(1)
    send(new, b"c")
    new.close(None)
    fenced = ""
    try:
        old.close(None)
    except KafkaError as error:
        fenced = str(error)
    failed, _ = writer(2)
    send(failed, b"d")
    failed.close(ValueError())
    return {
        "begun": [begun, again],
        "fenced": bool(fenced),
        "values": kafka.values(topic),
    }


def killed(kafka: Kafka) -> Any:
    """The exit codes of drivers that die in transactions, the records that readers see, and counts.

    The counts are those of windows, beside the right ones.
    """
    source, target = kafka.topic("copied"), kafka.topic("copies")
    now = int(time.time()) - 100  # A broker deletes records that are older than a week.
    kafka.send(source, [*numbers(0, 24, now), *numbers(1, 24, now, first=24)])
    kafka.send(source, [*numbers(0, 1, now, first=48), *numbers(1, 1, now, first=49)])
    place = [json.dumps(kafka.config), source, target, kafka.path("copies")]
    codes, seen = [], []
    for kill in (*kills(), None):
        if kill is None:
            transactions_program.main(kafka.config, source, target, kafka.path("copies"))
        else:
            command = [sys.executable, transactions_program.__file__, *place, *map(str, kill)]
            codes.append(subprocess.run(command, start_new_session=True, check=False).returncode)
        if is_whole() and kill == (NUMBERED, 0):
            # The transaction is open, and holds readers back until Kafka ends it.
            kafka.send(target, [(number, None, b"-1", now) for number in range(2)])
            until(lambda: kafka.values(target).count("-1") == 2, seconds=120)
        seen.append(sorted(map(int, kafka.values(target))))
    size = transactions_program.WINDOW
    end = (now + 48) // size * size  # Later windows may be open.
    table = pyarrow.parquet.read_table(kafka.path("copies-counts"))
    rows = [[*row.values()] for row in table.to_pylist() if row["start"] < end]
    places = [((now + n) // size * size, n % transactions_program.KEYS) for n in range(48)]
    right = [[*place, count] for place, count in Counter(places).items() if place[0] < end]
    return [codes, seen, [sorted(rows), sorted(right)]]


def kills() -> list[tuple[str, int]]:
    """Points of transactions and the number of a micro-batch, as drivers get there in turn."""
    if not is_whole():
        return [(NUMBERED, 0)]
    return [(point, epoch) for epoch in range(4) for point in POINTS]


def partitions(kafka: Kafka) -> Any:
    """Of four partitions one is idle, and one is an hour behind: no record of it is late."""
    topic = kafka.topic("partitions", 4)
    now = int(time.time()) - 100
    sent = [*numbers(0, 50, now), *numbers(1, 50, now), *numbers(3, 400, now - HOUR)]
    kafka.send(topic, sent)
    note = kafka.note("partitions")
    build = counts(kafka.earliest, topic, note)
    run_until(build, lambda: sum(note.found()) >= len(sent), "--max_batch_elements=100")
    return [sum(note.found()), len(sent)]


def appended(kafka: Kafka) -> Any:
    """Windows of a topic with append times end while nothing more comes."""
    topic = kafka.topic("appended", 2, **{"message.timestamp.type": "LogAppendTime"})
    note = kafka.note("appended")
    kafka.send(topic, numbers(0, 5))
    build = counts(kafka.earliest, topic, note, ReadFromKafka.log_append_time)
    run_until(build, lambda: sum(note.found()) >= 5)
    return sum(note.found())


def growth(kafka: Kafka) -> Any:
    """Records of partitions that come while a pipeline runs are read."""
    topic = kafka.topic("growth", 1)
    note = kafka.note("growth")
    kafka.send(topic, numbers(0, 3))
    build = numbers_of({**kafka.earliest, "metadata.max.age.ms": "500"}, topic, note)

    def done() -> bool:
        if len(note.found()) == 3:
            kafka.grow(topic, 3)
            kafka.send(topic, [*numbers(1, 2, first=3), *numbers(2, 2, first=5)])
            until(lambda: len(note.found()) > 3, seconds=200)
        return len(note.found()) >= 7

    run_until(build, done)
    return sorted(note.found())


def outage(kafka: Kafka) -> Any:
    """A broker that is away for a minute costs no record, and makes none twice."""
    topic = kafka.topic("outage")
    note = kafka.note("outage")
    kafka.send(topic, numbers(0, 3))
    group = {**kafka.earliest, "group.id": "away"}
    away = threading.Thread(target=_away, args=(kafka, topic, note))
    build = numbers_of(group, topic, note, commit_offset_in_finalize=True)
    away.start()
    run_until(build, lambda: len(note.found()) >= 6)
    away.join()
    return sorted(note.found())


def _away(kafka: Kafka, topic: str, note: Note) -> None:
    until(lambda: len(note.found()) == 3, seconds=200)
    kafka.broker.stop()
    time.sleep(60)
    kafka.broker.start()
    kafka.send(topic, numbers(1, 3, first=3))


def refusals(kafka: Kafka) -> Any:
    """Errors of what is found at the broker, which show no password."""
    topic = kafka.topic("refusals")
    kafka.send(topic, numbers(0, 1))
    longs = f"{SERIALIZATION}LongDeserializer"
    group = {**kafka.earliest, "group.id": "g"}
    reads = {
        "size": ReadFromKafka(kafka.earliest, [topic], longs, longs),
        "type": ReadFromKafka(kafka.earliest, [topic], timestamp_policy="LogAppendTime"),
        "topic": ReadFromKafka(group, ["missing"]),
    }
    large = [(None, b"x" * 2_000_000)]
    plain, once = kafka.config, {**kafka.config, "transactional.id": "large"}

    def write(config: Any) -> str:
        sink = WriteToKafka(config, topic)
        return error_of(lambda: run(lambda p: p | beam.Create(large) | "Write it" >> sink))

    found = {name: _refusal(read) for name, read in reads.items()}
    return {**found, "large": write(plain), "large once": write(once)}


def _refusal(read: ReadFromKafka) -> str:
    return error_of(lambda: run(lambda pipeline: pipeline | "Read it" >> read | beam.Map(print)))


SCENARIOS = {
    each.__name__: each
    for each in (
        *(batch, bounded, opened, recreated, poison, encoded, transactions, killed),
        *(groups, page, partitions, appended, growth, refusals, outage),
    )
}


def main(folder: Path, names: Sequence[str]) -> None:
    session = threading.Thread(
        target=obtain, args=(PipelineOptions(BASE).view_as(SparkBeamOptions),)
    )
    session.start()
    try:
        with Broker(folder / "broker", login=(USER, PASSWORD)) as broker:
            kafka = Kafka(broker, folder)
            session.join()
            for name in names:
                begun = time.monotonic()
                found = SCENARIOS[name](kafka)
                print(f"{name}: {time.monotonic() - begun:.1f} s", file=sys.stderr)
                print(json.dumps({name: found}), flush=True)
    except NoBrokerError as error:
        sys.exit(f"{NO_BROKER}{str(error).splitlines()[-1]}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
