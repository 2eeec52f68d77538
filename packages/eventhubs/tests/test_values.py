"""AMQP's values: what is decoded is what was encoded, and nonsense is an error."""

import uuid
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pyspark_eventhubs.amqp import frames, values
from pyspark_eventhubs.amqp.values import Described, decode, encode

PLAIN = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=300),
    st.binary(max_size=300),
    st.uuids(),
    st.integers(0, 2**64 - 1).map(values.ULong),
    st.integers(0, 2**32 - 1).map(values.UInt),
    st.integers(-(2**31), 2**31 - 1).map(values.Int),
    st.integers(-(2**63), 2**63 - 1).map(values.Timestamp),
    st.text(st.characters(max_codepoint=127), max_size=20).map(values.Symbol),
)
ANY = st.recursive(
    PLAIN,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4),
        st.builds(Described, st.integers(0, 255).map(values.ULong), inner),
    ),
)


def same(left: Any, right: Any) -> bool:
    return bool(left == right) and type(left) is type(right)


@given(ANY)
def test_what_is_decoded_is_what_was_encoded(value: Any) -> None:
    found, end = decode(encode(value))
    assert same(found, value)
    assert end == len(encode(value))


def test_arrays_keep_their_kind() -> None:
    for array in (values.Symbols([values.Symbol("a")]), values.Strings(["ä", ""])):
        assert same(decode(encode(array))[0], array)


@given(st.binary(max_size=60))
@example(b"s\x80\0\0\0")
def test_bytes_are_a_value_or_an_error(data: bytes) -> None:
    try:
        _, end = decode(data)
    except ValueError:
        return
    assert 0 < end <= len(data)


@given(PLAIN.map(encode), st.data())
def test_a_value_cut_short_is_an_error(encoded: bytes, data: st.DataObject) -> None:
    short = encoded[: data.draw(st.integers(0, len(encoded) - 1))]
    with pytest.raises(ValueError, match=r"not an AMQP value|within an AMQP value|claims"):
        decode(short)


def test_what_amqp_does_not_have_is_an_error() -> None:
    with pytest.raises(TypeError, match="a set cannot be encoded"):
        encode({uuid.uuid4()})


def test_a_frame_has_all_fields_and_is_split_off() -> None:
    data = bytearray(frames.frame(3, frames.CLOSE, []) + frames.frame(0, frames.OPEN, ["me"]))
    channel, body = frames.split(data) or (0, b"")
    assert (channel, decode(body)[0].value) == (3, [None])
    _, body = frames.split(data) or (0, b"")
    assert decode(body)[0].value == ["me", *[None] * 9]
    assert frames.split(data) is None


@pytest.mark.parametrize(
    "head", [b"\xff\xff\xff\xff\x02\x00\x00\x00", b"\x00\x00\x00\x09\xff\0\0\0"]
)
def test_a_frame_of_any_size_or_none_is_an_error(head: bytes) -> None:
    with pytest.raises(ValueError, match="not an AMQP frame"):
        frames.split(bytearray(head))
