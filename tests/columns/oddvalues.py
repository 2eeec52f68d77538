"""Random elements in random forms, for the fuzzer of functions and pipelines over columns."""

import struct
from dataclasses import dataclass
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
