"""Type of a value, in few enough bytes to be in each row."""

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from apache_beam.coders import RowCoder, coders
from apache_beam.internal import pickler
from apache_beam.pvalue import Row

from sparkbeam.columns.python_types import (
    BOOL,
    BYTES,
    FLOAT,
    INT,
    NONE,
    STR,
    Opaque,
    RecordShape,
    Shape,
)

_PLAIN: dict[Shape, bytes] = {
    INT: b"i",
    FLOAT: b"f",
    BOOL: b"b",
    STR: b"s",
    BYTES: b"y",
    NONE: b"n",
}
_PLAIN_OF = {code: shape for shape, code in _PLAIN.items()}
_KINDS: dict[type, bytes] = {tuple: b"(", list: b"[", dict: b"{", Row: b"r"}
_KIND_OF = {code: kind for kind, code in _KINDS.items()}
_KNOWN, _PICKLED = b"k", b"p"
_OF_SCHEMA, _OF_ARROW = b"o", b"a"
_MOST = 255

_UNITS = ("s", "ms", "us", "ns")
_ARROW_TYPES = [
    pa.date32(),
    pa.date64(),
    *(pa.timestamp(unit, zone) for zone in (None, "UTC") for unit in _UNITS),
    *map(pa.time32, _UNITS[:2]),
    *map(pa.time64, _UNITS[2:]),
    *map(pa.duration, _UNITS),
]


class HeadCoder:
    """Coder of shapes: the length of the rest in a byte, then a letter or two for each part.

    Args:
        coder: the coder of the values; classes that it knows are represented by their number.
    """

    def __init__(self, coder: coders.Coder) -> None:
        self._classes = list(_classes(coder))

    def encode(self, shape: Shape) -> bytes | None:
        """Return the bytes of a shape; None if they are not few."""
        found = b"".join(self._encoded_parts(shape))
        return bytes([len(found)]) + found if len(found) <= _MOST else None

    def decode(self, head: bytes) -> Shape:
        """Return the inverse of :meth:`encode`."""
        return self._read(_Bytes(head[1:]))

    def _encoded_parts(self, shape: Shape) -> Iterator[bytes]:
        if shape in _PLAIN:
            yield _PLAIN[shape]
            return
        if isinstance(shape, Opaque):
            yield _OF_ARROW if shape.is_as_in_arrow else _OF_SCHEMA
            if shape.arrow_type in _ARROW_TYPES:
                yield bytes([_ARROW_TYPES.index(shape.arrow_type)])
            else:
                yield bytes([_MOST]) + _text(pickler.dumps(shape.arrow_type))
            return
        assert isinstance(shape, RecordShape)
        known = (shape.type, shape.names)
        if known in self._classes[:_MOST]:
            yield _KNOWN + _number(self._classes.index(known))
        elif shape.type in _KINDS:
            yield _KINDS[shape.type] + _number(len(shape.names))
            if shape.type in (dict, Row):
                yield from (_text(name.encode()) for name in shape.names)
        else:
            yield _PICKLED + _text(pickler.dumps(known))
        for part in shape.fields:
            yield from self._encoded_parts(part)

    def _read(self, data: "_Bytes") -> Shape:
        code = data.take(1)
        if code in _PLAIN_OF:
            return _PLAIN_OF[code]
        if code in (_OF_ARROW, _OF_SCHEMA):
            number = data.number()
            kind = pickler.loads(data.text()) if number == _MOST else _ARROW_TYPES[number]
            return Opaque(kind, is_as_in_arrow=code == _OF_ARROW)
        if code == _KNOWN:
            kind, names = self._classes[data.number()]
        elif code == _PICKLED:
            kind, names = pickler.loads(data.text())
        else:
            kind, count = _KIND_OF[code], data.number()
            if kind in (dict, Row):
                names = tuple(data.text().decode() for _ in range(count))
            else:
                names = tuple(map(str, range(count)))
        return RecordShape(kind, names, tuple(self._read(data) for _ in names))


class _Bytes:
    """Cursor over bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, count: int) -> bytes:
        self._at += count
        return self._data[self._at - count : self._at]

    def number(self) -> int:
        return self.take(1)[0]

    def text(self) -> bytes:
        return self.take(self.number())


def _number(number: int) -> bytes:
    return bytes([min(number, _MOST)])


def _text(text: bytes) -> bytes:
    return _number(len(text)) + text[: _MOST + 1]


def _classes(coder: coders.Coder) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """Yield the classes of which a coder makes instances, and their fields."""
    parts: Iterable[coders.Coder] = ()
    if isinstance(coder, RowCoder):
        yield coder.to_type_hint(), tuple(part.name for part in coder.schema.fields)
        parts = coder.components
    elif isinstance(coder, coders.TupleCoder):
        parts = coder.coders()
    for part in parts:
        yield from _classes(part)
