"""Kafka's serializers and deserializers, in Python and over Spark's columns."""

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql.types import BinaryType, DataType, DoubleType, LongType, StringType

from sparkbeam.common.arguments import listed, nearest, shown
from sparkbeam.errors import ConfigurationError
from sparkbeam.upstream.spark import version

_PACKAGE = "org.apache.kafka.common.serialization."


@dataclass(frozen=True)
class Format:
    """Form of the keys or values of records.

    Attributes:
        name: the common part of the names of Kafka's two classes.
        code: the format of ``struct``; empty for bytes and strings.
    """

    name: str
    type: type
    column: DataType
    code: str = ""

    def serialized(self, value: Any) -> bytes | None:
        """Return a value as bytes; None stays None.

        Raises:
            TypeError: it has another type.
            ValueError: it is out of range.
        """
        if value is None or (self.type is bytes and isinstance(value, bytes)):
            return value
        is_number = self.type is float and isinstance(value, int)
        if isinstance(value, bool) or not (isinstance(value, self.type) or is_number):
            raise TypeError(
                f"Kafka's {self.name}Serializer takes {self.type.__name__} or None, not "
                f"{type(value).__name__} {shown(value)}: convert the elements, or choose another "
                "serializer."
            )
        if self.type is str:
            return bytes(value.encode("utf-8", "replace"))
        try:
            return struct.pack(self.code, value)
        except (struct.error, OverflowError):
            raise ValueError(
                f"{shown(value)} is out of range for Kafka's {self.name}Serializer: choose "
                "another serializer."
            ) from None

    def deserialized(self, data: bytes | None) -> Any:
        """Return the value of bytes; None stays None.

        Raises:
            ValueError: they have the wrong length.
        """
        if data is None or self.type is bytes:
            return data
        if self.type is str:
            return data.decode("utf-8", "replace")
        if len(data) != struct.calcsize(self.code):
            raise ValueError(self._wrong_size(str(len(data))))
        return struct.unpack(self.code, data)[0]

    def expression(self, column: str, label: str) -> str:
        """Return the SQL expression with the values of a column of bytes.

        Args:
            label: of the step, for its errors.
        """
        if self.type is bytes:
            return column
        if self.type is str:
            # Malformed parts are replaced, as in Java; Spark 4's decode would fail.
            before = f"decode({column}, 'UTF-8')"
            return before if version() < (4,) else f"make_valid_utf8(CAST({column} AS STRING))"
        found = self._number(_bits(column))
        size = f"octet_length({column})"
        wrong = failing(label, self._wrong_size(ARGUMENT), size)
        return (
            f"CASE WHEN {column} IS NULL THEN NULL "
            f"WHEN {size} = {struct.calcsize(self.code)} THEN {found} ELSE {wrong} END"
        )

    def _number(self, bits: str) -> str:
        if self.type is int:
            return bits
        return _float(bits, *((11, 52) if self.code == _DOUBLE else (8, 23)))

    def _wrong_size(self, size: str) -> str:
        return (
            f"{self.name}Deserializer takes {struct.calcsize(self.code)} bytes, but a Kafka "
            f"record has {size}: choose the deserializer that matches its serializer."
        )


ARGUMENT = "\0"
"""Place of an expression in a message of :func:`failing`."""


def failing(label: str, message: str, argument: str) -> str:
    """Return the SQL expression that fails with a message about a step.

    Args:
        message: with :data:`ARGUMENT` in it.
    """
    text = f"Step '{label.replace(ARGUMENT, '')}': {message}".replace("\\", "\\\\").replace(
        "'", "\\'"
    )
    before, after = text.split(ARGUMENT)
    return f"raise_error(concat('{before}', {argument}, '{after}'))"


def _bits(column: str) -> str:
    """Return the expression of big-endian bytes as a signed number."""
    digits = f"hex({column})"
    return (
        f"CAST(conv(lpad({digits}, 16, IF({digits} >= '8', 'F', '0')), 16, -10) AS BIGINT)"
    )  # fmt: skip


def _float(bits: str, exponent_bits: int, fraction_bits: int) -> str:
    """Return the expression of a floating-point number of IEEE 754."""
    most = (1 << exponent_bits) - 1
    least = most // 2 + fraction_bits - 1  # Of the last bit, negative.
    exponent = f"(shiftright({bits}, {fraction_bits}) & {most})"
    fraction = f"({bits} & {(1 << fraction_bits) - 1})"
    digits = f"({fraction} + IF({exponent} > 0, {1 << fraction_bits}, 0))"
    sign = f"IF({bits} < 0, -1D, 1D)"
    return (
        f"CASE WHEN {exponent} < {most} THEN {sign} * {digits} "
        f"* power(2D, greatest({exponent}, 1) - 1 - {least}) "
        f"WHEN {fraction} = 0 THEN {sign} * DOUBLE('Infinity') ELSE DOUBLE('NaN') END"
    )


_DOUBLE = ">d"
BYTES = Format("ByteArray", bytes, BinaryType())
_FORMATS: Mapping[str, Format] = {
    form.name: form
    for form in (
        BYTES,
        Format("String", str, StringType()),
        Format("Long", int, LongType(), ">q"),
        Format("Integer", int, LongType(), ">i"),
        Format("Short", int, LongType(), ">h"),
        Format("Double", float, DoubleType(), _DOUBLE),
        Format("Float", float, DoubleType(), ">f"),
    )
}


def format_of(argument: str, name: str, kind: str, remedy: str) -> Format:
    """Return the format of one of Kafka's classes.

    Args:
        kind: ``Serializer`` or ``Deserializer``.
        remedy: for other classes.

    Raises:
        ConfigurationError: it is another class.
    """
    found = _FORMATS.get(name.removeprefix(_PACKAGE).removesuffix(kind))
    if found is None or not name.startswith(_PACKAGE) or not name.endswith(kind):
        near = _meant(name)
        raise ConfigurationError(
            f"{argument}={shown(name)} is a Java class that is not supported. "
            + (
                f"Use {_PACKAGE}{near}{kind}."
                if near is not None
                else f"Allowed: {listed(f'{each}{kind}' for each in _FORMATS)} of {_PACKAGE[:-1]}."
            )
            + f" {remedy}"
        )
    return found


def _meant(name: str) -> str | None:
    """Return the name of the format that a misspelt name of a class means; None for none."""
    package, _, simple = name.rpartition(".")
    base = re.sub(r"(?:Des|S)eriali[sz]er$", "", simple, flags=re.IGNORECASE)
    is_kafkas = not package or nearest(package, [_PACKAGE]) is not None
    return nearest(base, _FORMATS, similarity=0.85) if is_kafkas else None
