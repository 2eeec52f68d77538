"""Ordered coders of single values: numbers, strings, bytes and times."""

import datetime
import decimal
import operator
import struct
from typing import Any

from apache_beam.coders import coders
from apache_beam.utils.timestamp import Timestamp

from sparkbeam.common.arguments import shown

FLIP = bytes(range(255, -1, -1))
"""Translation table that reverses the order of encodings."""

_LONG = 0x7F
_INT64 = struct.Struct(">Q")
_SIGN = 1 << 63
_MASK = (1 << 64) - 1
_DATE = struct.Struct(">I")
_EPOCH = datetime.datetime(1970, 1, 1)
_EPOCH_UTC = _EPOCH.replace(tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)


OF_TYPES: dict[Any, type["OrderedCoder"]] = {}
"""The coder of each type of single values, which a class of coders names with ``of``."""


class OrderedCoder(coders.Coder):
    """Base of coders whose self-delimiting encodings have the order of the values."""

    preserves_order = True
    _type: Any

    def __init_subclass__(cls, of: Any = None) -> None:
        super().__init_subclass__()
        if of is not None:
            cls._type, OF_TYPES[of] = of, cls

    def encode(self, value: Any) -> bytes:
        """Encode a value; raise TypeError or ValueError for an unsupported one."""
        raise NotImplementedError(type(self))

    def read(self, data: bytes, at: int) -> tuple[Any, int]:
        """Decode a value at an offset; return it and its end."""
        raise NotImplementedError(type(self))

    def decode(self, encoded: bytes) -> Any:
        value, end = self.read(encoded, 0)
        if end != len(encoded):
            raise ValueError(f"{self!r} cannot decode {shown(encoded)}")
        return value

    def is_deterministic(self) -> bool:
        return True

    def to_type_hint(self) -> Any:
        return self._type

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def _wrong(self, value: object, taken: str) -> TypeError:
        return TypeError(f"{self!r} accepts {taken}, not {shown(value)}")


class OrderedBoolCoder(OrderedCoder, of=bool):
    """False before True."""

    def encode(self, value: Any) -> bytes:
        if not isinstance(value, bool):
            raise self._wrong(value, "True and False")
        return b"\1" if value else b"\0"

    def read(self, data: bytes, at: int) -> tuple[bool, int]:
        return data[at] != 0, at + 1


class OrderedIntCoder(OrderedCoder, of=int):
    """Integers of any size, in one more byte than their shortest form; 1 byte for 0."""

    def encode(self, value: Any) -> bytes:
        try:
            return _of_int(operator.index(value))
        except TypeError:
            raise self._wrong(value, "integers") from None

    def read(self, data: bytes, at: int) -> tuple[int, int]:
        return _read_int(data, at)


class OrderedFloatCoder(OrderedCoder, of=float):
    """Floats from -inf to inf, in 8 bytes. -0.0 becomes 0.0, which it equals.

    Raises:
        ValueError: for NaN, which has no order, and for values without an exact float.
    """

    def encode(self, value: Any) -> bytes:
        try:
            number = float(value)
            is_exact = bool(number == value)
        except (OverflowError, TypeError, ValueError):
            is_exact = False
        if not is_exact:
            raise ValueError(f"{self!r} accepts floats other than NaN, not {shown(value)}")
        (bits,) = _INT64.unpack(struct.pack(">d", number + 0.0))
        return _INT64.pack(bits ^ (_MASK if bits & _SIGN else _SIGN))

    def read(self, data: bytes, at: int) -> tuple[float, int]:
        (bits,) = _INT64.unpack_from(data, at)
        plain = _INT64.pack(bits ^ (_SIGN if bits & _SIGN else _MASK))
        return struct.unpack(">d", plain)[0], at + 8


class OrderedDecimalCoder(OrderedCoder, of=decimal.Decimal):
    """Decimals by value, including infinities; trailing zeros are lost.

    Raises:
        ValueError: NaN.
    """

    def encode(self, value: Any) -> bytes:
        if not isinstance(value, decimal.Decimal):
            raise self._wrong(value, "Decimals")
        if value.is_nan():
            raise ValueError(f"{self!r} does not accept NaN, which has no place in an order")
        if not value:
            return b"\2"
        if value.is_infinite():
            return b"\4" if value > 0 else b"\0"
        digits = "".join(map(str, value.as_tuple().digits)).rstrip("0")
        body = _of_int(value.adjusted()) + digits.encode() + b"\0"
        return b"\3" + body if value > 0 else b"\1" + body.translate(FLIP)

    def read(self, data: bytes, at: int) -> tuple[decimal.Decimal, int]:
        kind = data[at]
        at += 1
        if kind not in (1, 3):
            return decimal.Decimal(["-Infinity", "", "0", "", "Infinity"][kind]), at
        if kind == 1:
            body = data[at:].translate(FLIP)
            value, end = _read_decimal(body, 0, negative=True)
            return value, at + end
        return _read_decimal(data, at, negative=False)


class OrderedBytesCoder(OrderedCoder, of=bytes):
    """Bytes in Python's order, with 2 bytes at the end and one more for each zero byte."""

    def encode(self, value: Any) -> bytes:
        if not isinstance(value, bytes):
            raise self._wrong(value, "bytes")
        return value.replace(b"\0", b"\0\xff") + b"\0\1"

    def read(self, data: bytes, at: int) -> tuple[bytes, int]:
        end = data.index(b"\0\1", at)
        return data[at:end].replace(b"\0\xff", b"\0"), end + 2


class OrderedStrCoder(OrderedCoder, of=str):
    """Strings by code points, as Python compares them, in UTF-8."""

    def encode(self, value: Any) -> bytes:
        if not isinstance(value, str):
            raise self._wrong(value, "strings")
        return _BYTES.encode(value.encode("utf-8", "surrogatepass"))

    def read(self, data: bytes, at: int) -> tuple[str, int]:
        value, end = _BYTES.read(data, at)
        return value.decode("utf-8", "surrogatepass"), end


class OrderedTimestampCoder(OrderedCoder, of=Timestamp):
    """Beam's timestamps, and values convertible to them, in microseconds; in 8 bytes."""

    def encode(self, value: Any) -> bytes:
        try:
            return _of_int64(Timestamp.of(value).micros)
        except (TypeError, ValueError, struct.error):
            raise self._wrong(value, "64-bit timestamps") from None

    def read(self, data: bytes, at: int) -> tuple[Timestamp, int]:
        return Timestamp(micros=_read_int64(data, at)), at + 8


class OrderedDateCoder(OrderedCoder, of=datetime.date):
    """Dates, in 4 bytes."""

    def encode(self, value: Any) -> bytes:
        if not isinstance(value, datetime.date) or isinstance(value, datetime.datetime):
            raise self._wrong(value, "dates")
        return _DATE.pack(value.toordinal())

    def read(self, data: bytes, at: int) -> tuple[datetime.date, int]:
        return datetime.date.fromordinal(_DATE.unpack_from(data, at)[0]), at + 4


class OrderedDatetimeCoder(OrderedCoder, of=datetime.datetime):
    """Datetimes, in 9 bytes.

    Those with a time zone are ordered by instant and decoded in UTC. Those without one come before
    them: Python cannot compare the two kinds.
    """

    def encode(self, value: Any) -> bytes:
        if not isinstance(value, datetime.datetime):
            raise self._wrong(value, "datetimes")
        if value.utcoffset() is None:
            return b"\0" + _of_int64((value.replace(tzinfo=None) - _EPOCH) // _MICROSECOND)
        try:
            return b"\1" + _of_int64((value.astimezone(datetime.UTC) - _EPOCH_UTC) // _MICROSECOND)
        except OverflowError:
            raise ValueError(f"{shown(value)} is outside the years 1 to 9999 in UTC") from None

    def read(self, data: bytes, at: int) -> tuple[datetime.datetime, int]:
        epoch = _EPOCH_UTC if data[at] else _EPOCH
        return epoch + _read_int64(data, at + 1) * _MICROSECOND, at + 9


def _of_int64(number: int) -> bytes:
    return _INT64.pack(number + _SIGN)


def _read_int64(data: bytes, at: int) -> int:
    return int(_INT64.unpack_from(data, at)[0]) - _SIGN


def _of_int(number: int) -> bytes:
    """Encode the length, then the bytes. A negative number is the flipped complement."""
    if number < 0:
        return _of_int(~number).translate(FLIP)
    size = (number.bit_length() + 7) // 8
    head = bytes([0x80 + size]) if size < _LONG else b"\xff" + _of_int(size)
    return head + number.to_bytes(size, "big")


def _read_int(data: bytes, at: int) -> tuple[int, int]:
    if data[at] < 0x80:
        # The head has the length, so the rest of a tuple need not be flipped.
        head = data[at : at + _HEAD].translate(FLIP)
        start, size = _sized(head, 0)
        end = at + start + size
        return ~int.from_bytes(data[at + start : end].translate(FLIP), "big"), end
    start, size = _sized(data, at)
    return int.from_bytes(data[start : start + size], "big"), start + size


def _sized(data: bytes, at: int) -> tuple[int, int]:
    """Return the offset and the length of the bytes of a non-negative number."""
    if data[at] < 0xFF:
        return at + 1, data[at] - 0x80
    size, start = _read_int(data, at + 1)
    return start, size


def _read_decimal(data: bytes, at: int, *, negative: bool) -> tuple[decimal.Decimal, int]:
    adjusted, at = _read_int(data, at)
    end = data.index(b"\0", at)
    digits = tuple(byte - ord("0") for byte in data[at:end])
    return decimal.Decimal((negative, digits, adjusted - len(digits) + 1)), end + 1


_HEAD = 16
"""Longest possible head of a number that fits into memory."""

_BYTES = OrderedBytesCoder()
