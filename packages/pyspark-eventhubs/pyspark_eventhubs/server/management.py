"""Request nodes: ``$cbs`` accepts tokens, ``$management`` describes hubs."""

from typing import Any

from pyspark_eventhubs.amqp import frames
from pyspark_eventhubs.amqp.values import Described, Int, Strings, Timestamp, encode, sections
from pyspark_eventhubs.server.event_store import OFFSET, Hub
from pyspark_eventhubs.server.shared_state import State

CBS, MANAGEMENT = "$cbs", "$management"


def answer(state: State, node: str, message: bytes) -> bytes:
    """Return the reply message of a node to a request."""
    found = {code: value for code, value, _, _ in sections(message)}
    asked = {str(name): value for name, value in (found.get(0x74) or {}).items()}
    if node == CBS:
        trusted = state.trusts(found.get(frames.VALUE))
        status = 202 if trusted else 401
        body: dict[str, Any] = {}
    else:
        state.counts.requests += 1
        status, body = _read(state, asked)
    properties: list[Any] = [None] * 13
    properties[5] = (found.get(frames.PROPERTIES) or [None])[
        0
    ]  # Correlation id: the message answered.
    told = {"status-code": Int(status), "status-description": _DESCRIPTIONS[status]}
    return (
        encode(Described(frames.PROPERTIES, properties))
        + encode(Described(frames.APPLICATION_PROPERTIES, told))
        + encode(Described(frames.VALUE, body))
    )


_DESCRIPTIONS = {
    200: "OK",
    202: "Accepted",
    400: "The partition does not exist.",
    401: "The token is not valid.",
    404: "The event hub does not exist.",
    503: "The server is busy.",
}


def _read(state: State, asked: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    if state.faults.is_busy():
        return 503, {}
    if not state.trusts(asked.get("security_token")):
        return 401, {}
    name = str(asked.get("name"))
    hub = state.hubs.get(name)
    if hub is None:
        return 404, {}
    if asked.get("type") == "com.microsoft:partition":
        return _partition(name, hub, str(asked.get("partition")))
    numbers = [str(number) for number in range(len(hub.partitions))]
    return 200, {
        "name": name,
        "type": "com.microsoft:eventhub",
        "created_at": Timestamp(0),
        "partition_count": Int(len(numbers)),
        "partition_ids": Strings(numbers),
    }


def _partition(name: str, hub: Hub, number: str) -> tuple[int, dict[str, Any]]:
    if not number.isdigit() or int(number) >= len(hub.partitions):
        return 400, {}
    partition = hub.partitions[int(number)]
    last = partition.end - 1
    return 200, {
        "name": name,
        "type": "com.microsoft:partition",
        "partition": number,
        "begin_sequence_number": partition.first if partition.end else -1,
        "last_enqueued_sequence_number": last,
        "last_enqueued_offset": str(last * OFFSET) if last >= 0 else "-1",
        "last_enqueued_time_utc": Timestamp(partition.times[-1] if partition.times else 0),
        "is_partition_empty": not partition.messages,
    }
