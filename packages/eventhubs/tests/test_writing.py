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
from pyspark_eventhubs.events import EventHubsError
from pyspark_eventhubs.testing import EventHubsServer
from sparkbeam.errors import ConfigurationError
from sparkbeam_eventhubs import EventHubsEvent, WriteToEventHubs
from sparkbeam_eventhubs.repeats import DropRepeats

pytestmark = pytest.mark.hub_partitions(4)


def write(
    server: EventHubsServer,
    elements: list[Any],
    *,
    task: int = 0,
    **given: Any,
) -> None:
    writer = HubWriter(Sending(connection(server), **given)).with_sink_id("run")
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
    write(server, [b"x"], properties=lambda element: given)
    (event,) = (event for at in range(4) for event in server.events("clicks", at))
    found = dict(event.properties)
    del found[SENT]
    assert found == given


@pytest.mark.parametrize(
    ("element", "given", "message"),
    [
        (17, {}, "a int cannot be the body"),
        (None, {}, "a NoneType cannot be the body"),
        (b"x", {"properties": lambda e: {"a": {1}}}, "'a' is a set"),
        (b"x", {"properties": lambda e: {"a": 2**63}}, "'a' exceeds 64 bits"),
        (b"x", {"properties": lambda e: {"a": "\ud800"}}, "'a': not valid Unicode"),
        ("\ud800", {}, "body: not valid Unicode"),
        (b"x", {"properties": lambda e: {3: "a"}}, "the name 3 is not a string"),
        (b"x", {"properties": lambda e: None}, "a NoneType cannot be the properties"),
        (b"x", {"partition": lambda e: 9}, "no partition 9"),
        (b"x", {"partition": lambda e: "1"}, "no partition '1'"),
        (b"x", {"partition": lambda e: True}, "no partition True"),
        (b"x", {"partition_key": lambda e: e}, "partition_key: a bytes cannot be the key"),
        (b"x", {"partition_key": lambda e: "\ud800"}, "partition_key: not valid Unicode"),
        (bytes(2_000_000), {}, "too large for the event hub"),
    ],
)
def test_what_cannot_be_sent_is_an_error(
    server: EventHubsServer, element: Any, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(EventHubsError, match=message):
        write(server, [b"first", element], **given)


def test_times_are_sent_as_such(server: EventHubsServer) -> None:
    at = datetime(2030, 1, 1, tzinfo=UTC)
    write(server, [b"x"], properties=lambda element: {"at": at})
    (event,) = (event for at in range(4) for event in server.events("clicks", at))
    assert event.properties["at"] == at.timestamp() * 1000


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


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"partition_key": "a", "partition_id": 1}, "not both"),
        ({"partition_key": 3}, "partition_key=3 must be a string"),
        ({"partition_id": -1}, "partition_id=-1 must be at least 0"),
        ({"properties": [1]}, "properties="),
        ({"properties": {"a": [1]}}, "properties: 'a' is a list: use a string, number"),
        ({"partition_id": 1.0}, "partition_id=1.0 must be a whole number"),
        ({"partition_key": ""}, "partition_key='' is empty"),
        ({"operation_timeout": -1}, "operation_timeout=-1 must be a duration"),
        ({"body": "text"}, "body='text' must be a function"),
        ({"max_batch_bytes": 1}, "max_batch_bytes=1 must be at least"),
        ({"client": "x"}, "client='x' must be one of sdk, slim"),
        ({"connection_string": None}, "either connection_string="),
        ({"connection_string": "Endpoint=sb://x;SharedAccessKey=geheim"}, "is not an Event Hubs"),
        ({"event_hub": None}, "event_hub= is missing"),
        ({"credential": 1}, "credential= requires"),
        ({"connection_string": None, "fully_qualified_namespace": "x"}, "requires credential="),
    ],
)
def test_a_wrong_argument_is_told_when_the_sink_is_made(
    given: dict[str, Any], message: str
) -> None:
    base = {
        "connection_string": "Endpoint=sb://x;SharedAccessKeyName=a;SharedAccessKey=geheim",
        "event_hub": "clicks",
    }
    with pytest.raises(ConfigurationError, match=message) as raised:
        WriteToEventHubs(**(base | given))
    assert "geheim" not in str(raised.value)
