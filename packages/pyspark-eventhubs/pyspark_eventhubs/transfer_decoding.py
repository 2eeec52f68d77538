"""Decoding of AMQP transfers to columns of events, without intermediate objects.

Common parts of events, annotations with symbols and short texts, are decoded directly; all else by
:mod:`pyspark_eventhubs.amqp.values`.
"""

import struct
from typing import Any

from pyspark_eventhubs.amqp.frames import TRANSFER, padded
from pyspark_eventhubs.amqp.values import decode
from pyspark_eventhubs.events import Events, as_text

_U32 = struct.Struct(">I").unpack_from
_I64 = struct.Struct(">q").unpack_from

_PROPERTY_NAMES = (
    "message-id",
    "user-id",
    "to",
    "subject",
    "reply-to",
    "correlation-id",
    "content-type",
    "content-encoding",
    "absolute-expiry-time",
    "creation-time",
    "group-id",
    "group-sequence",
    "reply-to-group-id",
)

Pairs = list[tuple[Any, Any]]
Texts = list[tuple[str, str | None]]


class Inbox:
    """The events received over a link.

    Attributes:
        events: the decoded events, in order.
        unsettled: the first and the last unsettled transfer; None for none.
    """

    def __init__(self) -> None:
        self.events = Events()
        self.received = 0
        self.unsettled: tuple[int, int] | None = None
        self._part = bytearray()
        self._waits: int | None = None

    def receive_transfer(self, data: bytes, start: int, end: int) -> None:
        """Process a transfer: its performative and its payload.

        Raises:
            ValueError: the data is not a transfer.
        """
        number, settled, more, at = _transfer(data, start)
        if number is not None and not settled:
            self._waits = number
        if more or self._part:
            self._part += data[at:end]
            if more:
                return
            data, at, end = bytes(self._part), 0, len(self._part)
            self._part.clear()
        decode_message(data, at, end, self.events)
        self.received += 1
        if self._waits is not None:
            first = self._waits if self.unsettled is None else self.unsettled[0]
            self.unsettled = (first, self._waits)
            self._waits = None


def handle_of(data: bytes, start: int) -> int:
    """Return the handle of the transfer at a position; -1 for other performatives."""
    if data[start] != 0 or data[start + 2] != TRANSFER:
        return -1
    at = start + (6 if data[start + 3] == 0xC0 else 12)
    return _uint(data, at) or 0


def _uint(data: bytes, at: int) -> int | None:
    code = data[at]
    if code == 0x43:
        return 0
    if code == 0x52:
        return data[at + 1]
    return None if code == 0x40 else int(_U32(data, at + 1)[0])


_REMEMBERED = 1000


def _transfer(data: bytes, start: int) -> tuple[int | None, bool, bool, int]:
    """Return number, settled flag, more flag and payload position of a transfer."""
    if data[start + 3] == 0xC0:
        payload, at = start + 5 + data[start + 4], start + 6
    else:
        payload, at = start + 8 + _U32(data, start + 4)[0], start + 12
    code = data[at]
    at += 2 if code == 0x52 else 5 if code == 0x70 else 1  # The handle.
    if data[at] == 0x70 and data[at + 5] == 0xA0:
        number: int | None = _U32(data, at + 1)[0]
        at += 7 + data[at + 6]
        rest = data[at:payload]
        flags = _FLAGS.get(rest)
        if flags is None:
            if len(_FLAGS) >= _REMEMBERED:
                _FLAGS.clear()
            flags = _FLAGS[rest] = _flags(rest)
        return number, *flags, payload
    performative, _ = decode(data, start)
    fields = padded(TRANSFER, list(performative.value))
    return fields[1], bool(fields[4]), bool(fields[5]), payload


_FLAGS: dict[bytes, tuple[bool, bool]] = {}
"""Parsed flags behind the tag of a transfer, cached as most transfers have equal ones."""


def _flags(rest: bytes) -> tuple[bool, bool]:
    """Return the settled and more flags of a transfer, which follow the format."""
    fields: list[Any] = []
    at = 0
    while at < len(rest) and len(fields) < 3:
        value, at = decode(rest, at)
        fields.append(value)
    fields += [None] * 3
    return bool(fields[1]), bool(fields[2])


def decode_message(data: bytes, at: int, end: int, into: Events) -> None:
    """Decode a message and add it.

    Raises:
        ValueError: the data is not a message.
    """
    annotations: Annotations = _NONE
    properties: Texts = []
    named: Texts = []
    body: bytes | None = None
    while at < end:
        code = data[at + 2]
        at += 3
        if code == 0x75:
            size, first = (data[at + 1], at + 2) if data[at] == 0xA0 else _long(data, at)
            at = first + size
            body = data[first:at] if body is None else body + data[first:at]
        elif code == 0x72:
            annotations, at = _annotations(data, at)
        elif code == 0x74:
            properties, at = _texts(data, at)
        elif code == 0x73:
            values, at = decode(data, at)
            pairs = zip(_PROPERTY_NAMES, values, strict=False)
            named = [(name, as_text(value)) for name, value in pairs if value is not None]
        elif code == 0x77:
            value, at = decode(data, at)
            body = value if isinstance(value, bytes) else (as_text(value) or "").encode()
        else:
            _, at = decode(data, at)
    number, offset, enqueued, key, publisher, system = annotations
    into.numbers.append(number)
    into.offsets.append(offset)
    into.times.append(enqueued)
    into.keys.append(key)
    into.publishers.append(publisher)
    into.properties.append(properties)
    into.system.append(system + named if named else system)
    into.bodies.append(b"" if body is None else body)


def _long(data: bytes, at: int) -> tuple[int, int]:
    return _U32(data, at + 1)[0], at + 5


Annotations = tuple[int, str | None, int, str | None, str | None, Texts]
"""Sequence number, offset, enqueued time, partition key, publisher, and other annotations."""

_NONE: Annotations = (-1, None, -1, None, None, [])
_NUMBER = b"\xa3\x15x-opt-sequence-number\x81"
_OFFSET = b"\xa3\x0cx-opt-offset\xa1"
_ENQUEUED = b"\xa3\x13x-opt-enqueued-time\x83"


def _annotations(data: bytes, at: int) -> tuple[Annotations, int]:
    """Return the annotations of a message, and the position behind them."""
    first = at + (3 if data[at] == 0xC1 else 9)
    if data[first - 1] == 6 and data.startswith(_NUMBER, first):
        second = first + len(_NUMBER) + 8
        size = second + len(_OFFSET)
        third = size + 1 + data[size]
        if data.startswith(_OFFSET, second) and data.startswith(_ENQUEUED, third):
            behind = third + len(_ENQUEUED)
            number, enqueued = _I64(data, second - 8)[0], _I64(data, behind)[0]
            offset = data[size + 1 : third].decode()
            return (number, offset, enqueued, None, None, []), behind + 8
    return _any_annotations(data, at)


def _any_annotations(data: bytes, at: int) -> tuple[Annotations, int]:
    pairs, at = _pairs(data, at)
    found = dict(pairs)
    number = found.pop("x-opt-sequence-number", -1)
    offset = as_text(found.pop("x-opt-offset", None))
    enqueued = found.pop("x-opt-enqueued-time", -1)
    key = as_text(found.pop("x-opt-partition-key", None))
    publisher = as_text(found.pop("x-opt-publisher", None))
    system = [(as_text(name) or "", as_text(value)) for name, value in found.items()]
    return (number, offset, enqueued, key, publisher, system), at


_SEEN: dict[bytes, Texts] = {}
"""Cache of decoded property sections, which are often equal in many events."""


def _texts(data: bytes, at: int) -> tuple[Texts, int]:
    """Return the entries of a map as texts, and the position behind it."""
    end = at + 2 + data[at + 1] if data[at] == 0xC1 else at + 5 + _U32(data, at + 1)[0]
    section = data[at:end]
    found = _SEEN.get(section)
    if found is None:
        pairs, _ = _pairs(data, at)
        found = [(as_text(name) or "", as_text(value)) for name, value in pairs]
        if len(_SEEN) >= _REMEMBERED:
            _SEEN.clear()
        _SEEN[section] = found
    return found, end


def _pairs(data: bytes, at: int) -> tuple[Pairs, int]:
    """Return the entries of a map, and the position behind it."""
    if data[at] == 0xC1:
        count, at = data[at + 2], at + 3
    else:
        count, at = _U32(data, at + 5)[0], at + 9
    found = []
    for _ in range(count >> 1):
        code = data[at]
        if code == 0xA3 or code == 0xA1:
            end = at + 2 + data[at + 1]
            name: Any = data[at + 2 : end].decode()
            at = end
        else:
            name, at = decode(data, at)
        code = data[at]
        if code == 0x81 or code == 0x83:
            value: Any = _I64(data, at + 1)[0]
            at += 9
        elif code == 0xA1 or code == 0xA3:
            end = at + 2 + data[at + 1]
            value = data[at + 2 : end].decode()
            at = end
        else:
            value, at = decode(data, at)
        found.append((name, value))
    return found, at
