"""A task of the sink sends each element, and when it runs again the same to the same places."""

from datetime import UTC, datetime
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.utils.timestamp import Timestamp
from hubs import connection, numbered

from pyspark_eventhubs.event_writer import SENT, HubWriter, Sending
from pyspark_eventhubs.testing import EventHubsServer
from sparkbeam_eventhubs import EventHubsEvent
from sparkbeam_eventhubs.repeats import DropRepeats

pytestmark = pytest.mark.hub_partitions(4)


def write(
    server: EventHubsServer,
    elements: list[Any],
    *,
    task: int = 0,
    **given: Any,
) -> None:
    writer = HubWriter(Sending(connection(server), **given), "run")
    assert writer.open(task, 7)
    try:
        for element in elements:
            writer.process(element)
    except Exception as error:
        writer.close(error)
        raise
    writer.close(None)


def bodies(server: EventHubsServer) -> list[list[bytes]]:
    return [[event.body for event in server.events("clicks", at)] for at in range(4)]


def test_elements_go_from_one_partition_to_the_next_in_batches(server: EventHubsServer) -> None:
    elements = numbered(1200)
    write(server, elements, task=1)
    assert bodies(server) == [[], elements[:500], elements[500:1000], elements[1000:]]
    sent = [event.properties[SENT] for event in server.events("clicks", 1)]
    assert sent[:2] == ["run/7/1/0", "run/7/1/1"]


def test_a_task_that_runs_again_sends_the_same_to_the_same_places(server: EventHubsServer) -> None:
    elements = [bytes([at % 256]) * (at % 300) for at in range(700)]
    write(server, elements, task=2, batch_bytes=20_000)
    first = [server.events("clicks", at) for at in range(4)]
    write(server, elements, task=2, batch_bytes=20_000)
    for at, events in enumerate(first):
        again = server.events("clicks", at)[len(events) :]
        assert [(e.body, e.properties) for e in again] == [(e.body, e.properties) for e in events]


def test_keys_and_partitions_are_those_of_the_elements(server: EventHubsServer) -> None:
    write(server, ["a1", "b1", "a2"], partition_key=lambda text: text[0])
    by_key = {
        event.body: event.partition_key for at in range(4) for event in server.events("clicks", at)
    }
    assert by_key == {b"a1": "a", b"b1": "b", b"a2": "a"}
    write(server, [b"x", b"y"], partition=lambda body: np.int64(3))
    assert bodies(server)[3][-2:] == [b"x", b"y"]


def test_properties_keep_their_types(server: EventHubsServer) -> None:
    numbers = {"i": -5, "l": 2**31, "m": -(2**63), "f": 0.5}
    given = {"t": "ä", **numbers, "b": True, "n": None, "y": b"\x00\xff"}
    time = datetime(2030, 1, 1, tzinfo=UTC)
    write(server, [b"x"], properties=lambda element: {**given, "at": time})
    (event,) = (event for at in range(4) for event in server.events("clicks", at))
    found = dict(event.properties)
    del found[SENT]
    assert found == {**given, "at": time.timestamp() * 1000}


def event(number: int, sent: str | None, partition: int = 0) -> EventHubsEvent:
    properties = {} if sent is None else {SENT: sent}
    return EventHubsEvent(
        b"%d" % number, partition, "", number, Timestamp(0), None, None, properties, {}
    )


def test_repeats_are_dropped_and_nothing_else() -> None:
    attempts = [
        *((0, f"run/1/0/{at}") for at in (0, 1, 2)),  # It failed here,
        *((0, f"run/1/0/{at}") for at in (0, 1)),  # and here,
        *((0, f"run/1/0/{at}") for at in (0, 1, 2, 3)),
        (0, "run/2/0/0"),  # The next micro-batch,
        (0, "run/1/1/0"),  # another task,
        (0, "other/1/0/0"),  # another sink,
        (0, None),  # and events of others, hostile ones too.
        (0, "run/1/0"),
        (0, "run/1/0/٣x"),
        (0, "run/1/0/" + "9" * 5000),
        (1, "run/1/0/0"),
    ]
    events = [event(at, sent, partition) for at, (partition, sent) in enumerate(attempts)]
    repeats = {3, 4, 5, 6, 7}
    with beam.Pipeline(options=PipelineOptions([])) as pipeline:
        found = pipeline | beam.Create(events, reshuffle=False) | DropRepeats()
        numbers = found | beam.Map(lambda found: found.sequence_number)
        assert_that(numbers, equal_to([at for at in range(len(events)) if at not in repeats]))
