"""Frames of AMQP 1.0, which two peers exchange over a connection."""

import struct
from collections.abc import Sequence
from typing import Any

from pyspark_eventhubs.amqp.values import Described, encode

HEADER = b"AMQP\x00\x01\x00\x00"
SASL_HEADER = b"AMQP\x03\x01\x00\x00"

OPEN, BEGIN, ATTACH, FLOW, TRANSFER, DISPOSITION, DETACH, END, CLOSE = range(0x10, 0x19)
SASL_MECHANISMS, SASL_INIT, SASL_CHALLENGE, SASL_RESPONSE, SASL_OUTCOME = range(0x40, 0x45)
ERROR = 0x1D
ACCEPTED, REJECTED = 0x24, 0x25
SOURCE, TARGET = 0x28, 0x29
ANNOTATIONS, PROPERTIES, APPLICATION_PROPERTIES, DATA, VALUE = 0x72, 0x73, 0x74, 0x75, 0x77

BATCH = 0x80013700
"""Message format whose data sections are messages themselves."""

_LENGTHS = {
    OPEN: 10,
    BEGIN: 8,
    ATTACH: 14,
    FLOW: 11,
    TRANSFER: 11,
    DISPOSITION: 6,
    DETACH: 3,
    END: 1,
    CLOSE: 1,
}
_FRAME_HEAD = struct.Struct(">IBBH")
_MOST = 1 << 20


def frame(channel: int, code: int, fields: Sequence[Any], payload: bytes = b"") -> bytes:
    """Return a frame with all fields of its performative, as expected by the Azure SDK."""
    body = encode(Described(code, padded(code, [*fields]))) + payload
    is_sasl = code >= SASL_MECHANISMS
    return _FRAME_HEAD.pack(8 + len(body), 2, 1 if is_sasl else 0, channel) + body


def padded(code: int, fields: list[Any]) -> list[Any]:
    """Return the fields of a performative, with omitted trailing ones filled in."""
    return fields + [None] * (_LENGTHS.get(code, 0) - len(fields))


def split(data: bytearray) -> tuple[int, bytes] | None:
    """Remove the first complete frame from received data; return its channel and body.

    Raises:
        ValueError: the data is not a frame, or the frame is too large.
    """
    if len(data) < 8:
        return None
    size, offset, _, channel = _FRAME_HEAD.unpack_from(data)
    if not 8 <= size <= _MOST or not 2 <= offset <= size // 4:
        raise ValueError("the bytes are not an AMQP frame")
    if len(data) < size:
        return None
    body = bytes(data[4 * offset : size])
    del data[:size]
    return channel, body
