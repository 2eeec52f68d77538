"""Assignment of the columns of rows to those of a table that exists.

Where Spark or a database would change a value to fit a column of the table, the write fails: at
once if the types show it, or else at the first value that does not fit.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from math import inf
from typing import Any

from pyspark.sql import functions as sf
from pyspark.sql import types as st

from sparkbeam.common.arguments import shown
from sparkbeam.connectors.latest import quoted
from sparkbeam.errors import ConfigurationError

_Condition = Callable[[Any], Any]
"""Returns a column of booleans for a column of values."""

_BITS: Mapping[type[st.DataType], int] = {
    st.ByteType: 8,
    st.ShortType: 16,
    st.IntegerType: 32,
    st.LongType: 64,
}
_PRECISION: Mapping[type[st.DataType], int] = {st.FloatType: 24, st.DoubleType: 53}
"""Bits of the integers that a type of floating-point numbers represents exactly."""

_WIDEST_DECIMAL = 38
"""Precision that also stands for the decimals of databases without a limit."""

_LENGTH = "__CHAR_VARCHAR_TYPE_STRING"
"""Key of the metadata of a column with the type of a text of limited length."""


def check_assignment(pairs: Iterable[tuple[st.StructField, st.StructField]], table: str) -> None:
    """Check that columns keep the digits after the point, and the time of day.

    Args:
        pairs: the columns of the rows, each with that of the table.

    Raises:
        ConfigurationError: a column of the table would cut them.
    """
    for field, column in pairs:
        for part in _parts(field.dataType, column):
            target = part.target.dataType
            cut = _cut(part.source, target)
            if cut:
                raise ConfigurationError(
                    f"The field {shown(field.name + part.path)} is of type "
                    f"{part.source.simpleString()}, but the table {shown(table)} has "
                    f"{target.simpleString()} there, which would truncate {cut}: convert the "
                    "values, and give the field the type of the column."
                )


def checked_rows(rows: Any, schema: st.StructType, table: str) -> Any:
    """Return rows that fail at the first value that does not fit its column of a table.

    Args:
        schema: the columns of the table, matched to those of the rows by name.

    Raises:
        ConfigurationError: see :func:`check_assignment`.
    """
    columns = {column.name.lower(): column for column in schema}
    columns |= {column.name: column for column in schema}
    found = [
        (field, columns.get(field.name, columns.get(field.name.lower()))) for field in rows.schema
    ]
    check_assignment([(field, column) for field, column in found if column is not None], table)
    values = [
        (field.name, [] if column is None else _misfits(field, column)) for field, column in found
    ]
    if not any(misfits for _, misfits in values):
        return rows
    return rows.select(*(_checked(name, misfits).alias(name) for name, misfits in values))


def checked_value(field: st.StructField, column: st.StructField) -> Any:
    """Return the values of a field, which fail where they do not fit the column of a table.

    Databases name the column of some of these values, and none of others.
    """
    return _checked(field.name, _misfits(field, column))


def failing(value: Any, wrong: Any, problem: str) -> Any:
    """Return values that fail under a condition."""
    # With the coalesce, a column without nulls remains one.
    error = sf.coalesce(sf.raise_error(sf.lit(problem)), value)
    return sf.when(wrong, error).otherwise(value)


def _checked(name: str, misfits: list[tuple[_Condition, str]]) -> Any:
    value = found = sf.col(quoted(name))
    for wrong, problem in misfits:
        found = failing(found, wrong(value), problem)
    return found


def _misfits(field: st.StructField, column: st.StructField) -> list[tuple[_Condition, str]]:
    """Return the conditions under which values do not fit a column, with their messages."""
    found = []
    for part in _parts(field.dataType, column):
        wrong = _misfit(part.source, part.target)
        if wrong is not None:
            kind = part.target.metadata.get(_LENGTH) or part.target.dataType.simpleString()
            problem = (
                f"A value of the field {shown(field.name + part.path)} does not fit the column "
                f"{shown(column.name + part.path)} of type {kind}."
            )
            found.append((part.within(wrong), problem))
    return found


@dataclass(frozen=True)
class _Part:
    """A part of a column that has no parts.

    Attributes:
        within: converts a condition for its values to one for those of the column.
    """

    source: st.DataType
    target: st.StructField
    path: str = ""
    within: Callable[[_Condition], _Condition] = lambda wrong: wrong


def _parts(source: st.DataType, target: st.StructField) -> Iterator[_Part]:
    match source, target.dataType:
        case st.ArrayType() as have, st.ArrayType() as want:
            yield from _elements("[]", have.elementType, want.elementType, lambda value: value)
        case st.MapType() as have, st.MapType() as want:
            yield from _elements(".key", have.keyType, want.keyType, sf.map_keys)
            yield from _elements(".value", have.valueType, want.valueType, sf.map_values)
        case st.StructType() as have, st.StructType() as want:
            columns = {field.name.lower(): field for field in want}
            for field in have:
                if field.name.lower() in columns:
                    yield from _field(field, columns[field.name.lower()])
        case _:
            yield _Part(source, target)


def _elements(
    step: str, source: st.DataType, target: st.DataType, values: Callable[[Any], Any]
) -> Iterator[_Part]:
    """Yield the parts of the elements of an array, or of the keys or values of a map."""

    def within(part: _Part, wrong: _Condition) -> _Condition:
        return lambda value: sf.exists(values(value), part.within(wrong))

    for part in _parts(source, st.StructField("", target)):
        yield replace(part, path=step + part.path, within=partial(within, part))


def _field(source: st.StructField, target: st.StructField) -> Iterator[_Part]:
    """Yield the parts of a field of a struct."""

    def within(part: _Part, wrong: _Condition) -> _Condition:
        return lambda value: part.within(wrong)(value.getField(source.name))

    for part in _parts(source.dataType, target):
        yield replace(part, path=f".{source.name}{part.path}", within=partial(within, part))


def _cut(source: st.DataType, target: st.DataType) -> str:
    """Return what a type cuts of all values of another; empty for nothing."""
    times = st.TimestampType | st.TimestampNTZType
    if isinstance(source, times) and isinstance(target, st.DateType):
        return "the time of day"
    digits = source.scale if isinstance(source, st.DecimalType) else 1
    if not isinstance(source, st.FractionalType) or not isinstance(target, st.NumericType):
        return ""
    if isinstance(target, st.IntegralType):
        room = 0
    else:
        room = target.scale if isinstance(target, st.DecimalType) else digits
    return "digits" if digits > room else ""


def _misfit(source: st.DataType, column: st.StructField) -> _Condition | None:
    """Return the condition under which a value does not fit a column; None if all do.

    Floating-point numbers are rounded to the precision of ``float`` or the scale of a decimal.
    """
    target = column.dataType
    if isinstance(source, st.StringType) and _LENGTH in column.metadata:
        length = int(re.sub(r"\D", "", column.metadata[_LENGTH]))
        return lambda value: sf.length(sf.rtrim(value)) > length
    if not isinstance(source, st.NumericType):
        return None
    bits = _BITS.get(type(source), _BITS[st.LongType] + 1)
    if isinstance(target, st.IntegralType):
        room = _BITS[type(target)]
        bound = 1 << (room - 1)
        return None if bits <= room else lambda value: ~value.between(-bound, bound - 1)
    if isinstance(target, st.DecimalType):
        return _out_of_range(source, target)
    if isinstance(source, st.DoubleType) and isinstance(target, st.FloatType):
        infinite = (inf, -inf)
        return lambda value: value.cast(target).isin(*infinite) & ~value.isin(*infinite)
    if isinstance(source, st.IntegralType) and bits > _PRECISION.get(type(target), bits):
        # The cast of 2**63 to an integer gives the largest one.
        largest = (1 << 63) - 1
        return lambda value: (value.cast(target).cast("bigint") != value) | (value == largest)
    return None


def _out_of_range(source: st.DataType, target: st.DecimalType) -> _Condition | None:
    """Return the condition under which a decimal does not hold a number."""
    digits = _WIDEST_DECIMAL
    if type(source) in _BITS:
        digits = len(str(1 << (_BITS[type(source)] - 1)))
    elif isinstance(source, st.DecimalType):
        digits = source.precision - source.scale
    if digits <= target.precision - target.scale or target.precision == _WIDEST_DECIMAL:
        return None
    bound = Decimal(10) ** (target.precision - target.scale)
    if isinstance(source, st.FractionalType) and not isinstance(source, st.DecimalType):
        limit: Any = float(bound - Decimal(5).scaleb(-target.scale - 1))
    else:
        limit = bound
    return lambda value: ~((value > sf.lit(-limit)) & (value < sf.lit(limit)))
