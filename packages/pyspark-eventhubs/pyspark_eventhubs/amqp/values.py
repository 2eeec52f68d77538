"""Encoding and decoding of AMQP 1.0 values.

Python types stand for the widest AMQP type of their kind: ``int`` for ``long``, ``float`` for
``double``, ``list`` for a list. AMQP types without a Python equivalent have a class here, so that
decoded values are encoded unchanged. See part 1 of the OASIS standard.
"""

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID


class Symbol(str):
    """A symbol of a protocol, in ASCII."""


class UByte(int):
    """An unsigned 8-bit integer."""


class UShort(int):
    """An unsigned 16-bit integer."""


class UInt(int):
    """An unsigned 32-bit integer."""


class ULong(int):
    """An unsigned 64-bit integer."""


class Int(int):
    """A signed 32-bit integer."""


class Timestamp(int):
    """Milliseconds since 1970."""


class Symbols(list[Symbol]):
    """An array of symbols."""


class Strings(list[str]):
    """An array of strings."""


@dataclass(frozen=True)
class Described:
    """A value with a descriptor, which is a number or a symbol."""

    code: Any
    value: Any


def encode(value: Any) -> bytes:
    """Encode a value.

    Raises:
        TypeError: AMQP has no equivalent.
    """
    encoder = _ENCODERS.get(type(value))
    if encoder is None:
        raise TypeError(f"a {type(value).__name__} cannot be encoded as an AMQP value")
    return encoder(value)


def decode(data: bytes, at: int = 0) -> tuple[Any, int]:
    """Decode the value at a position; return it with the position behind it.

    Raises:
        ValueError: the data is not an AMQP value.
    """
    try:
        code = data[at]
        if code == 0:
            described, at = decode(data, at + 1)
            value, at = decode(data, at)
            return Described(described, value), at
        return _plain(code, data, at + 1)
    except (IndexError, OverflowError, struct.error, RecursionError, UnicodeDecodeError):
        raise ValueError("the bytes are not an AMQP value") from None


def sections(data: bytes) -> Iterable[tuple[int, Any, int, int]]:
    """Yield the sections of a message: code, value, start and end.

    Raises:
        ValueError: the data is not a message.
    """
    at = 0
    while at < len(data):
        section, end = decode(data, at)
        if not isinstance(section, Described):
            raise ValueError("the bytes are not an AMQP message")
        yield int(section.code), section.value, at, end
        at = end


def _packed(code: int, format: str) -> Callable[[Any], bytes]:
    pack = struct.Struct(f">B{format}").pack
    return lambda value: pack(code, value)


def _sized(short: int, long: int, data: bytes) -> bytes:
    if len(data) < 256:
        return bytes((short, len(data))) + data
    return struct.pack(">BI", long, len(data)) + data


def _compound(code: int, count: int, body: bytes) -> bytes:
    return struct.pack(">BII", code, len(body) + 4, count) + body


def _encode_map(entries: dict[Any, Any]) -> bytes:
    body = b"".join(encode(part) for entry in entries.items() for part in entry)
    return _compound(0xD1, 2 * len(entries), body)


def _encode_list(items: Iterable[Any]) -> bytes:
    parts = [encode(item) for item in items]
    return _compound(0xD0, len(parts), b"".join(parts))


def _encode_array(code: int, items: list[str]) -> bytes:
    encoded = [item.encode() for item in items]
    body = b"".join(struct.pack(">I", len(item)) + item for item in encoded)
    return struct.pack(">BIIB", 0xF0, len(body) + 5, len(items), code) + body


def _encode_described(value: Described) -> bytes:
    code = ULong(value.code) if type(value.code) is int else value.code
    return b"\x00" + encode(code) + encode(value.value)


def _encode_ulong(value: int) -> bytes:
    return bytes((0x53, value)) if value < 256 else struct.pack(">BQ", 0x80, value)


_ENCODERS: dict[type, Callable[[Any], bytes]] = {
    type(None): lambda value: b"\x40",
    bool: lambda value: b"\x41" if value else b"\x42",
    UByte: _packed(0x50, "B"),
    UShort: _packed(0x60, "H"),
    UInt: _packed(0x70, "I"),
    ULong: _encode_ulong,
    Int: _packed(0x71, "i"),
    Timestamp: _packed(0x83, "q"),
    int: _packed(0x81, "q"),
    float: _packed(0x82, "d"),
    Symbol: lambda value: _sized(0xA3, 0xB3, value.encode()),
    str: lambda value: _sized(0xA1, 0xB1, value.encode()),
    bytes: lambda value: _sized(0xA0, 0xB0, value),
    UUID: lambda value: b"\x98" + value.bytes,
    Described: _encode_described,
    Symbols: lambda value: _encode_array(0xB3, value),
    Strings: lambda value: _encode_array(0xB1, value),
    list: _encode_list,
    tuple: _encode_list,
    dict: _encode_map,
}

_CONSTANT: dict[int, Any] = {
    0x40: None,
    0x41: True,
    0x42: False,
    0x43: UInt(0),
    0x44: ULong(0),
}
_FIXED: dict[int, tuple[struct.Struct, Callable[[Any], Any]]] = {
    code: (struct.Struct(f">{format}"), kind)
    for code, format, kind in (
        (0x50, "B", UByte),
        (0x51, "b", int),
        (0x52, "B", UInt),
        (0x53, "B", ULong),
        (0x54, "b", Int),
        (0x55, "b", int),
        (0x56, "B", bool),
        (0x60, "H", UShort),
        (0x61, "h", Int),
        (0x70, "I", UInt),
        (0x71, "i", Int),
        (0x72, "f", float),
        (0x73, "I", chr),
        (0x74, "4s", bytes),
        (0x80, "Q", ULong),
        (0x81, "q", int),
        (0x82, "d", float),
        (0x83, "q", Timestamp),
        (0x84, "8s", bytes),
        (0x94, "16s", bytes),
        (0x98, "16s", lambda octets: UUID(bytes=octets)),
    )
}
_U32 = struct.Struct(">I").unpack_from


def _plain(code: int, data: bytes, at: int) -> tuple[Any, int]:
    if code in _FIXED:
        form, kind = _FIXED[code]
        return kind(form.unpack_from(data, at)[0]), at + form.size
    if code in _CONSTANT:
        return _CONSTANT[code], at
    if code == 0x45:
        return [], at
    wide = code & 0x10
    if code & 0xE0 == 0xA0:
        size, at = (_U32(data, at)[0], at + 4) if wide else (data[at], at + 1)
        return _variable(code & 0xEF, data, at, at + size), at + size
    if code & 0xE0 == 0xC0:
        count, at = (_U32(data, at + 4)[0], at + 8) if wide else (data[at + 1], at + 2)
        return _items(code & 0xEF, count, data, at)
    if code & 0xE0 == 0xE0:
        count, at = (_U32(data, at + 4)[0], at + 8) if wide else (data[at + 1], at + 2)
        return _array(count, data, at)
    raise ValueError(f"AMQP has no type with the code {code:#x}")


def _variable(code: int, data: bytes, at: int, end: int) -> Any:
    if end > len(data):
        raise ValueError("the bytes end within an AMQP value")
    found = bytes(data[at:end])
    if code == 0xA0:
        return found
    return found.decode() if code == 0xA1 else Symbol(found.decode("ascii"))


def _items(code: int, count: int, data: bytes, at: int) -> tuple[Any, int]:
    _check(count, data)
    items: list[Any] = []
    for _ in range(count):
        item, at = decode(data, at)
        items.append(item)
    if code == 0xC0:
        return items, at
    return dict(zip(map(_hashable, items[::2]), items[1::2], strict=True)), at


def _check(count: int, data: bytes) -> None:
    if count > len(data):
        raise ValueError("an AMQP value claims more items than there are bytes")


def _hashable(key: Any) -> Any:
    return tuple(key) if isinstance(key, list) else repr(key) if isinstance(key, dict) else key


def _array(count: int, data: bytes, at: int) -> tuple[Any, int]:
    _check(count, data)
    code = data[at]
    at += 1
    items: list[Any] = []
    for _ in range(count):
        item, at = _plain(code, data, at)
        items.append(item)
    if code & 0xEF == 0xA3:
        return Symbols(items), at
    return (Strings(items) if code & 0xEF == 0xA1 else items), at
