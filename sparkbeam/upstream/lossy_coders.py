"""Values that Beam's coders encode, and decode to others."""

import math
from collections.abc import Callable
from typing import Any

from apache_beam.coders import RowCoder, coder_impl, coders

Loses = Callable[[Any], bool]

_END_OF_INT32 = 1 << 31
_END_OF_FLOAT = 2.0**128 - 2.0**103
"""The least number that rounds to infinity in single precision."""


def encoding(coder: coders.Coder) -> Callable[[Any], Any]:
    """Return a function that raises the error of a coder for the values that it refuses.

    The coder of values without a type refuses lone surrogates. What it pickles is not pickled here.
    """
    if isinstance(coder, coders.FastPrimitivesCoder):
        return coder_impl.FastPrimitivesCoderImpl(_Nothing()).get_estimated_size_and_observables
    return coder.encode


def loses(coder: coders.Coder) -> Loses | None:
    """Return a function that tells whether a value, once it is encoded, is lost.

    A number that is rounded as a float is not lost. One with a fraction is as an integer, one that
    becomes infinite, and a value other than True and False as a bool.

    Returns:
        The function, for values that the coder encodes; None if it loses none.
    """
    if isinstance(coder, RowCoder):
        return _of_fields(coder)
    if isinstance(coder, coders.TupleCoder):
        parts = [(at, found) for at, part in enumerate(coder.coders()) if (found := loses(part))]
        return _any(lambda value: (of(value[at]) for at, of in parts)) if parts else None
    if isinstance(coder, coders.MapCoder):
        return _of_map(loses(coder._key_coder), loses(coder._value_coder))
    if isinstance(coder, coders.NullableCoder):
        inner = loses(coder._value_coder)
        return inner and (lambda value: value is not None and inner(value))
    if isinstance(coder, coders.ListLikeCoder):
        element = loses(coder.value_coder())
        return element and _any(lambda value: map(element, value))
    return _OF_ATOMS.get(type(coder))


def _any(found: Callable[[Any], Any]) -> Loses:
    return lambda value: any(found(value))


def _of_fields(coder: Any) -> Loses | None:
    fields = zip(coder.schema.fields, coder.components, strict=True)
    parts = [(field.name, found) for field, part in fields if (found := loses(part))]

    def of_row(row: Any) -> bool:
        for name, of in parts:
            value = getattr(row, name)
            if value is not None and of(value):
                return True
        return False

    return of_row if parts else None


def _of_map(of_key: Loses | None, of_value: Loses | None) -> Loses | None:
    if of_key and of_value:
        return lambda value: any(map(of_key, value)) or any(map(of_value, value.values()))
    if of_key:
        return _any(lambda value: map(of_key, value))
    return _any(lambda value: map(of_value, value.values())) if of_value else None


def _of_integer(value: Any) -> bool:
    return type(value) is not int and int(value) != value


def _of_narrow(value: Any) -> bool:
    return not -_END_OF_INT32 <= value < _END_OF_INT32 or _of_integer(value)


def _of_double(value: Any) -> bool:
    return type(value) is not float and math.isinf(float(value)) and float(value) != value


def _of_single(value: Any) -> bool:
    found = float(value)
    return abs(found) >= _END_OF_FLOAT and not (math.isinf(found) and found == value)


def _of_boolean(value: Any) -> bool:
    return value is not True and value is not False and bool(value) != value


_OF_ATOMS: dict[type[coders.Coder], Loses] = {
    coders.VarIntCoder: _of_integer,
    coders.VarInt32Coder: _of_narrow,
    coders.BigEndianShortCoder: _of_integer,
    coders.ByteCoder: _of_integer,
    coders.FloatCoder: _of_double,
    coders.SinglePrecisionFloatCoder: _of_single,
    coders.BooleanCoder: _of_boolean,
}


class _Nothing(coder_impl.StreamCoderImpl):
    def encode_to_stream(self, value: Any, out: Any, nested: bool) -> None:
        """Write nothing."""
