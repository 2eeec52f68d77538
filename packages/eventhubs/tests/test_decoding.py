"""Transfers are decoded alike however their peer has written them."""

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_eventhubs.amqp import frames
from pyspark_eventhubs.amqp.values import Described, Symbol, Timestamp, UInt, encode
from pyspark_eventhubs.events import as_text
from pyspark_eventhubs.transfer_decoding import Inbox, handle_of

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
VALUES = st.one_of(TEXT, st.integers(-(2**63), 2**63 - 1), st.booleans(), st.none())


def compact(pairs: list[tuple[Any, Any]]) -> bytes:
    """A map as a peer writes it that saves bytes."""
    body = b"".join(
        encode(name)
        + (
            struct.pack(">Bb", 0x55, value)
            if type(value) is int and abs(value) < 100
            else encode(value)
        )
        for name, value in pairs
    )
    return b"\xc1" + bytes([len(body) + 1, 2 * len(pairs)]) + body


def message(
    number: int, properties: dict[str, Any], body: bytes, *, small: bool, extra: dict[str, Any]
) -> bytes:
    annotations = {
        Symbol("x-opt-sequence-number"): number,
        Symbol("x-opt-offset"): str(number * 100),
        Symbol("x-opt-enqueued-time"): Timestamp(1_700_000_000_000 + number),
        **{Symbol(name): value for name, value in extra.items()},
    }
    section = compact(list(annotations.items())) if small else encode(annotations)
    named = encode(Described(frames.APPLICATION_PROPERTIES, properties)) if properties else b""
    halves = [body[: len(body) // 2], body[len(body) // 2 :]]
    data = b"".join(encode(Described(frames.DATA, half)) for half in halves)
    return b"\x00\x53\x72" + section + named + data


def transfer(number: int, more: bool, payload: bytes, *, small: bool, settled: bool) -> bytes:
    """A transfer without the head of its frame."""
    if not small:
        fields = [UInt(7), UInt(number), struct.pack(">I", number), UInt(0), settled, more]
        return frames.frame(0, frames.TRANSFER, fields, payload)[8:]
    flags = bytes([0x41 if settled else 0x42, 0x41 if more else 0x42])
    fields_of = b"\x52\x07" + b"\x52" + bytes([number]) + b"\xa0\x01x" + b"\x43" + flags
    return b"\x00\x53\x14\xc0" + bytes([len(fields_of) + 1, 6]) + fields_of + payload


@given(
    st.integers(0, 255),
    st.dictionaries(TEXT, VALUES, max_size=4),
    st.binary(max_size=400),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_what_is_sent_is_what_is_found(
    number: int,
    properties: dict[str, Any],
    body: bytes,
    small: bool,
    small_head: bool,
    divided: bool,
    settled: bool,
) -> None:
    extra = {"x-opt-partition-key": "k", "x-opt-publisher": "p", "x-own": 5} if divided else {}
    whole = message(number, properties, body, small=small, extra=extra)
    parts = [whole[:10], whole[10:]] if divided else [whole]
    inbox = Inbox()
    for at, part in enumerate(parts):
        head = {"small": small_head, "settled": settled}
        data = b"before" + transfer(number, at + 1 < len(parts), part, **head) + b"behind"
        assert handle_of(data, 6) == 7
        inbox.receive_transfer(data, 6, len(data) - 6)
    events = inbox.events
    assert (inbox.received, events.numbers) == (1, [number])
    assert inbox.unsettled == (None if settled else (number, number))
    assert events.offsets == [str(number * 100)]
    assert events.times == [1_700_000_000_000 + number]
    assert events.bodies == [body]
    assert dict(events.properties[0]) == {name: as_text(v) for name, v in properties.items()}
    assert (events.keys, events.publishers) == ((["k"], ["p"]) if divided else ([None], [None]))
    assert events.system == ([[("x-own", "5")]] if divided else [[]])


@pytest.mark.parametrize("code", [frames.FLOW, frames.DISPOSITION, frames.DETACH])
def test_other_performatives_are_no_transfers(code: int) -> None:
    assert handle_of(frames.frame(0, code, [UInt(7)])[8:], 0) == -1


def test_a_body_that_is_a_value_is_its_text() -> None:
    inbox = Inbox()
    for number, value in enumerate([b"bytes", "text", 5, {"a": 1}]):
        payload = message(number, {}, b"", small=False, extra={})[:-10] + encode(
            Described(frames.VALUE, value)
        )
        data = transfer(number, False, payload, small=False, settled=True)
        inbox.receive_transfer(data, 0, len(data))
    assert inbox.events.bodies == [b"bytes", b"text", b"5", b"{'a': 1}"]
    assert inbox.events.numbers == [0, 1, 2, 3]
