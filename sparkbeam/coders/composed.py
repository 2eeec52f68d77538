"""Ordered coders of tuples, optional values and reversed order; choice of a type's coder."""

import types
import typing
from typing import Any

import apache_beam as beam
from apache_beam.coders import coders

from sparkbeam.coders.scalar import FLIP, OF_TYPES, OrderedCoder
from sparkbeam.common.arguments import shown
from sparkbeam.errors import ConfigurationError


class OrderedTupleCoder(OrderedCoder):
    """Tuples of a fixed length, compared by parts.

    Args:
        parts: an ordered coder for each part.
        of: the NamedTuple class; None for plain tuples.

    Raises:
        ConfigurationError: a part's coder is not ordered; the message names the coder to use.
    """

    def __init__(self, *parts: coders.Coder, of: type[tuple[Any, ...]] | None = None) -> None:
        self._parts = tuple(_part(coder) for coder in parts)
        self._of = of
        named = getattr(of, "_fields", None)
        if of is not None and (named is None or len(named) != len(parts)):
            raise ConfigurationError(
                f"of={shown(of)} is not a NamedTuple with {len(parts)} fields: use "
                "ordered_coder(…), which creates the coder of a NamedTuple."
            )

    def encode(self, value: Any) -> bytes:
        if not isinstance(value, tuple) or len(value) != len(self._parts):
            raise self._wrong(value, f"tuples of {len(self._parts)}")
        return b"".join([part.encode(item) for part, item in zip(self._parts, value, strict=True)])

    def read(self, data: bytes, at: int) -> tuple[tuple[Any, ...], int]:
        values = []
        for part in self._parts:
            value, at = part.read(data, at)
            values.append(value)
        return (tuple(values) if self._of is None else self._of(*values)), at

    def to_type_hint(self) -> Any:
        hints = [part.to_type_hint() for part in self._parts]
        return self._of or beam.typehints.Tuple[tuple(hints)]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self._parts))})"


class _OfAnother(OrderedCoder):
    """A coder derived from another one."""

    def __init__(self, part: coders.Coder) -> None:
        self._part = _part(part)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._part!r})"


class OrderedOptionalCoder(_OfAnother):
    """None, followed by the values of another coder.

    Args:
        part: an ordered coder.

    Raises:
        ConfigurationError: it is not ordered; the message names the coder to use.
    """

    def encode(self, value: Any) -> bytes:
        return b"\0" if value is None else b"\1" + self._part.encode(value)

    def read(self, data: bytes, at: int) -> tuple[Any, int]:
        return self._part.read(data, at + 1) if data[at] else (None, at + 1)

    def to_type_hint(self) -> Any:
        return beam.typehints.Optional[self._part.to_type_hint()]


class Descending(_OfAnother):
    """The values of another coder in descending order.

    Args:
        part: an ordered coder.

    Raises:
        ConfigurationError: it is not ordered; the message names the coder to use.
    """

    def encode(self, value: Any) -> bytes:
        return self._part.encode(value).translate(FLIP)

    def read(self, data: bytes, at: int) -> tuple[Any, int]:
        value, end = self._part.read(data[at:].translate(FLIP), 0)
        return value, at + end

    def to_type_hint(self) -> Any:
        return self._part.to_type_hint()


def preserves_order(coder: coders.Coder) -> bool:
    """Return whether a coder's encodings have the order of the values.

    True for the ordered coders, for Beam's coders of bytes, strings and bools, and for any coder
    with an attribute ``preserves_order = True``.
    """
    return getattr(coder, "preserves_order", False) is True or type(coder) in _BEAMS


def ordered_coder(kind: Any) -> OrderedCoder:
    """Return the ordered coder of a type.

    Args:
        kind: int, float, bool, str, bytes, Decimal, date, datetime, Timestamp, a NamedTuple with
            types, or ``tuple[…]`` or ``Optional[…]`` of these types.

    Raises:
        ConfigurationError: for another type.
    """
    kind = beam.typehints.native_type_compatibility.convert_to_python_type(kind)
    if kind in OF_TYPES:
        return OF_TYPES[kind]()
    arguments = typing.get_args(kind)
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        others = [part for part in arguments if part is not type(None)]
        if len(others) == 1 and len(arguments) == 2:
            return OrderedOptionalCoder(ordered_coder(others[0]))
    elif typing.get_origin(kind) is tuple and Ellipsis not in arguments:
        return OrderedTupleCoder(*map(ordered_coder, arguments))
    elif isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields"):
        hints = typing.get_type_hints(kind)
        if all(field in hints for field in kind._fields):
            return OrderedTupleCoder(*(ordered_coder(hints[f]) for f in kind._fields), of=kind)
    raise ConfigurationError(
        f"No coder preserves the order of {shown(kind)}: supported types are int, float, bool, "
        "str, bytes, Decimal, date, datetime, Timestamp, and tuples, NamedTuples and Optional of "
        "these. A custom coder that preserves order declares it with preserves_order = True."
    )


def instead_of(coder: coders.Coder) -> str:
    """Return the ordered replacement for a coder, as source code."""
    try:
        return repr(_ordered(coder))
    except ConfigurationError:
        return "sparkbeam.coders.ordered_coder(…) with the type of the keys"


def _ordered(coder: coders.Coder) -> OrderedCoder:
    if isinstance(coder, OrderedCoder):
        return coder
    if isinstance(coder, coders.TupleCoder):
        return OrderedTupleCoder(*map(_ordered, coder.coders()))
    try:
        return ordered_coder(coder.to_type_hint())
    except (AttributeError, NotImplementedError, TypeError, ValueError) as error:
        raise ConfigurationError(f"No coder preserves the order of {shown(coder)}.") from error


def _part(coder: coders.Coder) -> OrderedCoder:
    if isinstance(coder, OrderedCoder):
        return coder
    if not isinstance(coder, coders.Coder):
        raise ConfigurationError(f"{shown(coder)} is not a coder: use one of sparkbeam.coders.")
    raise ConfigurationError(
        f"{shown(coder)} cannot be a part of an ordered coder: use {instead_of(coder)}."
    )


_BEAMS = frozenset([coders.BytesCoder, coders.StrUtf8Coder, coders.BooleanCoder])
