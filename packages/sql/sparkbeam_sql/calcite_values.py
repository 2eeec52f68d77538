"""Values of expressions in SQL as expressions in Python."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from hashlib import blake2b
from typing import Any

import numpy as np
from apache_beam.typehints import typehints
from apache_beam.typehints.native_type_compatibility import convert_to_beam_type
from apache_beam.utils.timestamp import Timestamp
from sqlglot import exp

from sparkbeam.connectors.schemas import row_constraint, without_none
from sparkbeam_sql.calcite_dialect import QueryRefused

_Kind = exp.DataType.Type


@dataclass(frozen=True)
class Value:
    """An expression over a row.

    Attributes:
        source: its text in Python; the row is ``row``.
        nullable: it may be None.
        computed: a number is one of Python; one of a row may be a NumPy scalar.
        null_without_rows: it is an aggregate without GROUP BY that is null over no rows.
    """

    source: str
    kind: Any
    nullable: bool = False
    computed: bool = False
    null_without_rows: bool = False


KINDS: Mapping[Any, Any] = {
    _Kind.BOOLEAN: bool,
    _Kind.TINYINT: np.int8,
    _Kind.SMALLINT: np.int16,
    _Kind.INT: np.int32,
    _Kind.BIGINT: int,
    _Kind.FLOAT: np.float32,
    _Kind.DOUBLE: float,
    _Kind.DECIMAL: Decimal,
    _Kind.DATE: date,
    _Kind.VARCHAR: str,
    _Kind.CHAR: str,
    _Kind.TEXT: str,
    _Kind.TIMESTAMP: Timestamp,
    _Kind.TIMESTAMPNTZ: Timestamp,
    _Kind.BINARY: bytes,
    _Kind.VARBINARY: bytes,
}
WHOLE = (np.int8, np.int16, np.int32, np.int64, int)
REAL = (np.float32, np.float64, float)
NUMBERS = frozenset([*WHOLE, *REAL, Decimal])
BITS = {np.int8: 8, np.int16: 16, np.int32: 32}
"""Narrow types of whole numbers; the others have 64 bits."""


def is_integer(kind: Any) -> bool:
    """Return whether a type is one of whole numbers."""
    return kind in WHOLE


def parts_of(kind: Any) -> Iterator[Any]:
    """Yield a type, and those of the values within it; ``dict`` stands for types of maps."""
    rows = row_constraint(kind)
    if rows is not None:
        hints = [part for _, part in rows._fields]
    else:
        hint = convert_to_beam_type(kind)
        is_map = isinstance(hint, typehints.DictConstraint | typehints.MappingTypeConstraint)
        hints = [hint.key_type, hint.value_type] if is_map else []
        if hasattr(hint, "inner_type"):
            hints = [hint.inner_type]
        kind = dict if is_map else kind
    yield kind
    for hint in hints:
        yield from parts_of(without_none(hint)[0])


def is_nested(kind: Any) -> bool:
    """Return whether values are arrays, maps or rows."""
    return len([*parts_of(kind)]) > 1


def wider(left: Any, right: Any) -> Any:
    """Return the type of the result of arithmetic with two types of numbers."""
    if left in REAL or right in REAL:
        return left if left is right else float
    if Decimal in (left, right):
        return Decimal
    return max(left, right, key=WHOLE.index)


def ranged(text: str, kind: Any) -> str:
    """Return the text of a result with a type of numbers.

    One out of the range of a narrow type of whole numbers is an error when it is computed; one of
    64 bits is an error when it is written to a row.
    """
    if kind is np.float32:
        return f"single({text})"
    return f"whole({text}, {BITS[kind]})" if kind in BITS else text


def strict(kind: Any, text: str, *values: Value) -> Value:
    """Return an expression that is None if one of its parts is."""
    nulls, sources = present(*values)
    source = text.format(*sources)
    if not nulls:
        return Value(source, kind)
    return Value(f"({source} if {' and '.join(nulls)} else None)", kind, nullable=True)


def arithmetic(kind: Any, text: str, *values: Value) -> Value:
    """Return an expression as :func:`strict` does whose value is a number of Python."""
    return replace(strict(kind, text, *values), computed=True)


def present(*values: Value) -> tuple[list[str], list[str]]:
    """Return tests that nullable values are present, and the texts of all values behind these."""
    tests, sources = [], []
    for value in values:
        first, again = held(value) if value.nullable else ("", value.source)
        if value.nullable:
            tests.append(f"{first} is not None")
        sources.append(again)
    return tests, sources


def held(value: Value) -> tuple[str, str]:
    """Return the text of a value where it is first computed, and where it is used again.

    The name of a value is that of its text, so that equal expressions have equal texts.
    """
    if _SHORT.fullmatch(value.source):
        return value.source, value.source
    name = f"v{blake2b(value.source.encode(), digest_size=10).hexdigest()}"
    return f"({name} := {value.source})", name


_SHORT = re.compile(r"row\.\w+")


def computable(value: Value) -> Value:
    """Return an operand of arithmetic as a number of Python.

    NumPy scalars wrap around, round to their own width, and do not mix with decimals.
    """
    function = "integer" if is_integer(value.kind) else "real" if value.kind in REAL else ""
    if value.computed or not function or value.source.isdigit():
        return value
    return arithmetic(value.kind, f"{function}({{}})", value)


def as_kind(value: Value, kind: Any) -> Value:
    """Return a number for arithmetic with ``float`` or ``Decimal``; others stay what they are."""
    if kind in REAL and value.kind is Decimal:
        return _real(value, float)
    if kind in REAL and value.kind in REAL and value.kind is not kind:
        return computable(value)
    if kind is Decimal and is_integer(value.kind):
        return strict(Decimal, "Decimal({})", computable(value))
    return value


def _real(value: Value, kind: Any) -> Value:
    constant = _DECIMAL.fullmatch(value.source)
    if constant is not None:
        return Value(repr(float(constant[1])), kind)
    return strict(kind, "float({})", value)


_DECIMAL = re.compile(r"Decimal\('([^']+)'\)")


def converted(value: Value, kind: Any) -> Value:
    """Return a number as one of a wider type; null has any type."""
    if kind in REAL and value.kind not in (*REAL, Any):
        return _real(value, kind)
    return replace(as_kind(value, kind), kind=kind)


def common_kind(node: exp.Expr, *values: Value) -> Any:
    """Return the type of values of which each may be the result of an expression."""
    kinds = [value.kind for value in values if value.kind is not Any]
    found = kinds[0] if kinds else Any
    for kind in kinds[1:]:
        if kind is not found and not {kind, found} <= NUMBERS:
            raise unknown(node)
        found = kind if kind is found else wider(found, kind)
    return found


def alike(left: Value, right: Value) -> tuple[Value, Value]:
    """Return two values as the same type."""
    if left.kind is right.kind or not {left.kind, right.kind} <= NUMBERS:
        return left, right
    kind = wider(left.kind, right.kind)
    return converted(left, kind), converted(right, kind)


def unknown(node: exp.Expr) -> QueryRefused:
    """Return the error of an expression that has no value here."""
    return QueryRefused(f"the expression {node.sql()[:60]} in windows or in streaming")
