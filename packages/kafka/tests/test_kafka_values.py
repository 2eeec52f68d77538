"""Kafka's serializers and deserializers, in Python and in SQL."""

import math
import random
import struct
from itertools import zip_longest
from typing import Any

import pytest

from sparkbeam_kafka.values import Format, format_of

SERIALIZATION = "org.apache.kafka.common.serialization."
NAMES = ("ByteArray", "String", "Long", "Integer", "Short", "Double", "Float")
CODES = {"Long": ">q", "Integer": ">i", "Short": ">h", "Double": ">d", "Float": ">f"}


def form(name: str) -> Format:
    kind = "Deserializer"
    return format_of("key_deserializer", f"{SERIALIZATION}{name}{kind}", kind, "")


def values(name: str) -> list[Any]:
    if name == "ByteArray":
        return [b"", b"\x00\xff", None]
    if name == "String":
        return ["", "ä\U0001f600", "it's", None]
    bits = 8 * struct.calcsize(CODES[name])
    if name in ("Long", "Integer", "Short"):
        return [0, 1, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)), None]
    return [0.0, -0.0, 1.5, -2.5, math.inf, -math.inf, None]


@pytest.mark.parametrize("name", NAMES)
def test_a_value_comes_back(name: str) -> None:
    of = form(name)
    assert [of.deserialized(of.serialized(value)) for value in values(name)] == values(name)


def encoded(name: str) -> list[bytes | None]:
    """Bytes of the values above, and of others at random."""
    chance = random.Random(7)
    found = [form(name).serialized(value) for value in values(name)]
    size = struct.calcsize(CODES.get(name, "8s"))
    found += [chance.randbytes(size) for _ in range(200)]
    if name == "Double":
        found += [struct.pack(">Q", bits) for bits in (1, 2**52 - 1, 2**52, 2**63 + 1)]
    if name == "Float":
        found += [struct.pack(">I", bits) for bits in (1, 2**23 - 1, 2**23, 2**31 + 1)]
    return found


def exact(value: Any) -> Any:
    """A value that is equal to the same one alone."""
    return struct.pack(">d", value) if isinstance(value, float) and value == value else repr(value)


def test_spark_makes_the_same_values_of_bytes(spark: Any) -> None:
    data = {name: encoded(name) for name in NAMES}
    names = [*data]
    columns = ", ".join(f"{name} binary" for name in names)
    rows = spark.createDataFrame([*zip_longest(*data.values())], columns).coalesce(1)
    found = rows.selectExpr(*(f"{form(name).expression(name, 'L')} AS {name}" for name in names))
    table = found.toArrow()
    for name in names:
        made = table.column(name).to_pylist()[: len(data[name])]
        expected = [form(name).deserialized(each) for each in data[name]]
        if name == "String":  # How many characters malformed bytes become differs.
            made, expected = made[:4], expected[:4]
        assert [*map(exact, made)] == [*map(exact, expected)], name


def test_malformed_text_is_replaced_by_spark_too(spark: Any) -> None:
    rows = spark.createDataFrame([(b"a\xffb",)], "b binary")
    (row,) = rows.selectExpr(f"{form('String').expression('b', 'L')} AS v").collect()
    assert row.v == "a�b"


def test_bytes_of_another_length_are_an_error_of_spark_too(spark: Any) -> None:
    rows = spark.createDataFrame([(b"abc",)], "b binary")
    with pytest.raises(Exception, match="LongDeserializer takes 8 bytes, but a Kafka record has 3"):
        rows.selectExpr(f"{form('Long').expression('b', 'L')} AS v").collect()
