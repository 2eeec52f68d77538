"""Random elements in random forms, for the fuzzer of functions and pipelines over columns."""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
from apache_beam.pvalue import Row
from in_python import Element, Inner
from physical import FORMS

_ODD_INTS = [2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 10**6, 2**31, -1, 0]
_NAN = struct.unpack(">d", bytes.fromhex("fff8000000000001"))[0]
_ODD_FLOATS = [0.0, -0.0, float("nan"), _NAN, float("inf"), 1e308, 5e-324, 2.0**53, -1.5, 1 / 3]
_ODD_TEXTS = [
    *(
        "",
        "\u0130",
        "\u00df",
        "\u03a3\u03c2",
        "a\x00b",
        "\x1c \u3000",
        "\U0001f600",
        "\u0149",
        "\ufb01",
    ),
    *("0", "-7", "1e3", "inf", "1_0", "\u0663", "A" * 40, "e\u0301", "a,b,,", "\n", "\r\n"),
]
_ODD_BYTES = [b"", b"\x00", b"a", b"\xff\xfe", b"ab" * 9, "\u00e9".encode()]
_NAMES = ("a", "b", "f", "g", "s", "t", "y", "p", "q", "inner", "pair", "row", "item")


@dataclass(frozen=True)
class Values:
    """Makes random values.

    Args:
        random: where they come from.
        is_calm: they are small, short and plain, so that few functions fail over them.
    """

    random: Random
    is_calm: bool

    def int(self) -> int:
        """An int in 64 bits."""
        if self.is_calm or self.random.random() < 0.5:
            return self.random.randint(-5, 5)
        return self.random.choice([*_ODD_INTS, self.random.randint(-(2**63), 2**63 - 1)])

    def float(self) -> float:
        """A float, in calm cases one whose sums are exact."""
        if self.is_calm or self.random.random() < 0.3:
            return self.random.randint(-20, 20) / 4
        return self.random.choice([*_ODD_FLOATS, self.random.uniform(-10, 10)])

    def text(self) -> str:
        """A text that UTF-8 can say."""
        few = "".join(self.random.choices("abcAB ,0", k=self.random.randint(0, 4)))
        if self.is_calm or self.random.random() < 0.4:
            return few
        return few + self.random.choice(_ODD_TEXTS)

    def bytes(self) -> bytes:
        """Some bytes."""
        return self.random.choice(_ODD_BYTES[2:3] if self.is_calm else _ODD_BYTES)

    def bool(self) -> bool:
        """A truth value."""
        return self.random.random() < 0.5

    def element(self, without: str | None = None) -> Element:
        """An element.

        Args:
            without: the name of a field that is None at times.
        """
        fields: list[Any] = [
            *(self.int(), self.int(), self.float(), self.float(), self.text(), self.text()),
            *(self.bytes(), self.bool(), self.bool(), Inner(self.int(), self.text())),
            *((self.int(), self.text()), Row(u=self.float(), v=self.bool())),
            {"i": self.int(), "s": self.text()},
        ]
        if without is not None and self.random.random() < 0.3:
            fields[_NAMES.index(without)] = None
        return Element(*fields)


def values_for(random: Random) -> Values:
    """Values of a random kind."""
    return Values(random, random.random() < 0.6)


def elements_of(values: Values, count: int) -> list[Element]:
    """Elements, of which some may be without a field."""
    random = values.random
    without = random.choice(_NAMES) if random.random() < 0.2 else None
    if random.random() < 0.5:
        return [values.element(without) for _ in range(count)]
    # Equal ones many times, as keys and in dictionaries.
    some = [values.element(without) for _ in range(random.randint(1, 6))]
    return [random.choice(some) for _ in range(count)]


class Mixed:
    """Makes each array in another form; the same ones again in an equal order of calls.

    Args:
        seed: of the choices.
        one: the name of the form that all have, if they have the same one.
    """

    def __init__(self, seed: int, one: str | None = None) -> None:
        self._choices = Random(seed)
        self._one = one

    def __call__(self, values: list[Any], kind: pa.DataType) -> pa.Array:
        """An array of these values."""
        name = self._one or self._choices.choice(["plain", *FORMS])
        return pa.array(values, kind) if name == "plain" else FORMS[name](values, kind)


def _numbers(least: int, most: int) -> Callable[[Random], Any]:
    return lambda random: random.randint(least, most)


def _some_of(*values: Any) -> Callable[[Random], Any]:
    return lambda random: random.choice(values)


OTHERS: dict[str, tuple[pa.DataType, Callable[[Random], Any]]] = {
    "dates": (pa.date32(), _numbers(-(10**5), 10**5)),
    "moments": (pa.timestamp("us", "UTC"), _numbers(-(10**15), 10**15)),
    "local moments": (pa.timestamp("ms"), _numbers(-(10**12), 10**12)),
    "moments of pandas": (pa.timestamp("ns"), lambda random: random.randint(-9, 9) * 1000),
    "times": (pa.time64("us"), _numbers(0, 10**10)),
    "durations": (pa.duration("us"), _numbers(-(10**12), 10**12)),
    "decimals": (pa.decimal128(9, 2), _some_of(Decimal("1.50"), Decimal("-0.01"), Decimal(7))),
    "lists": (pa.list_(pa.int64()), _some_of([], [1, None], [2, 3, 4])),
    "lists of texts": (pa.large_list(pa.large_string()), _some_of([], ["a", "\u00e9"], [None])),
    "lists of moments": (pa.list_(pa.timestamp("us")), _some_of([], [1], [None, 5])),
    "lists of structs": (pa.list_(pa.struct({"a": pa.int64()})), _some_of([], [{"a": 1}, None])),
    "maps": (pa.map_(pa.string(), pa.int64()), _some_of([], [("a", 1)], [("b", None)])),
    "bytes of a length": (pa.binary(2), _some_of(b"ab", b"\x00\xff")),
    "views of texts": (pa.string_view(), _some_of("", "a", "\u00e9" * 20)),
    "views of bytes": (pa.binary_view(), _some_of(b"", b"\xff" * 20)),
    "large numbers": (pa.uint64(), _some_of(0, 5, 2**64 - 1, 2**63)),
    "small numbers": (pa.int8(), _numbers(-128, 127)),
    "half floats": (pa.float16(), _some_of(0.5, -0.0, 1.25)),
    "nothing": (pa.null(), _some_of(None)),
    "texts of few": (pa.dictionary(pa.int8(), pa.large_string()), _some_of("a", "B", "", "\u0130")),
    "dates of few": (pa.dictionary(pa.int32(), pa.date32()), _numbers(0, 3)),
    "moments of few": (pa.dictionary(pa.int32(), pa.timestamp("us")), _numbers(0, 3)),
    "numbers of few": (pa.dictionary(pa.uint8(), pa.int64()), _some_of(2**60, 1, -1)),
}
"""What a column may hold besides, by name: its type, and what makes a value."""


def others(name: str, count: int, random: Random) -> pa.Array:
    """A column of such values, some of which may be None, as a slice or whole."""
    kind, make = OTHERS[name]
    is_none = 0.2 if random.random() < 0.3 else 0.0
    before, behind = random.choice([0, 0, 1, 8]), random.choice([0, 3])
    total = before + count + behind
    values = [None if random.random() < is_none else make(random) for _ in range(total)]
    if pa.types.is_dictionary(kind):
        array = pa.array(values, kind.value_type).dictionary_encode()
        array = array if array.type == kind else array.cast(kind)
    else:
        array = pa.array(values, kind)
    return array.slice(before, count)
