"""Casts of SQL, in Python and in Spark."""

from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
from apache_beam.utils.timestamp import Timestamp
from sqlglot import exp

from sparkbeam.common.arguments import shown
from sparkbeam_sql.calcite_dialect import FLOATS, TEXTS, TIMESTAMPS, QueryRefused, place
from sparkbeam_sql.calcite_text import SparkText
from sparkbeam_sql.calcite_types import Kind, digits, require_known
from sparkbeam_sql.calcite_values import (
    BITS,
    KINDS,
    NUMBERS,
    REAL,
    Value,
    is_integer,
    strict,
    unknown,
)
from sparkbeam_sql.functions import day_of_text, micros_of_text

_OTHERS: Mapping[tuple[Any, Any], str] = {
    (str, bool): "boolean_of_text({})",
    (str, date): "day_of_text({})",
    (str, Timestamp): "Timestamp(micros=micros_of_text({}))",
    (str, bytes): "{}.encode()",
    (Timestamp, date): "day_of_time({})",
    (date, Timestamp): "time_of_day({})",
    **{(kind, bool): "({} != 0)" for kind in NUMBERS},
}
"""Casts between types that are not both numbers."""

_TEXTS: Mapping[Any, str] = {
    str: "{}",
    bool: "('TRUE' if {} else 'FALSE')",
    Timestamp: "text_of_time({})",
    date: "str({})",
    float: "text_of_real({})",
    np.float32: "text_of_single({})",
}


def cast(node: exp.Cast, value: Value) -> Value:
    """Return a value in another type."""
    kind = KINDS.get(node.to.this)
    if value.kind is Any:
        return Value(value.source, Any if kind is None else kind, nullable=True)
    if kind is str:
        return _text(node, value)
    if kind is Decimal:
        return _decimal(node, value)
    if kind is value.kind:
        return value
    if kind in (date, Timestamp) and value.kind is str and isinstance(node.this, exp.Literal):
        return _constant(node, kind)
    if (value.kind, kind) in _OTHERS:
        return strict(kind, _OTHERS[value.kind, kind], value)
    if kind not in NUMBERS or value.kind not in (*NUMBERS, str, bool):
        raise unknown(node)
    if kind in REAL:
        text = "number_of(float, {})" if value.kind is str else "float({})"
        return strict(kind, f"single({text})" if kind is np.float32 else text, value)
    text = "whole_of_real({})" if value.kind in REAL else "int({})"
    text = "number_of(int, {})" if value.kind is str else text
    bits = BITS.get(kind, 64)
    fits = value.kind is bool or (is_integer(value.kind) and BITS.get(value.kind, 64) <= bits)
    return strict(kind, text if fits else f"whole({text}, {bits})", value)


def _text(node: exp.Cast, value: Value) -> Value:
    text = "str({})" if is_integer(value.kind) else _TEXTS.get(value.kind)
    if value.kind is Decimal:
        text = f"text_of_decimal({{}}, {_fixed_scale(node)})"
    if text is None:
        raise unknown(node)
    length, is_char = _length(node)
    if length is not None:
        text += f"[:{length}]"
    return strict(str, f"{text}.ljust({length})" if is_char else text, value)


def _length(node: exp.Cast) -> tuple[int | None, bool]:
    """Return the length of a type of texts, and whether shorter ones are padded."""
    sizes = _sizes(node)
    is_char = not node.to.is_type(Kind.VARCHAR, Kind.TEXT)
    return sizes[0] if sizes else 1 if is_char else None, is_char


def _fixed_scale(node: exp.Cast) -> int | None:
    """Return the digits that decimals have behind the point; None if zeros at the end are none."""
    scale = digits(node.this.type)[1] if node.this.is_type(Kind.DECIMAL) else 18
    return None if scale == 18 else scale


def _decimal(node: exp.Cast, value: Value) -> Value:
    if value.kind not in (*NUMBERS, str):
        raise unknown(node)
    sizes = _sizes(node)
    precision, scale = (sizes[0], (*sizes, 0)[1]) if sizes else (38, 18)
    found = strict(Decimal, f"decimal_of({{}}, {precision}, {scale})", value)
    # A number that is none is null.
    return Value(found.source, Decimal, found.nullable or value.kind in REAL)


def _sizes(node: exp.Cast) -> list[int]:
    return [int(each.name) for each in node.to.expressions]


def _constant(node: exp.Cast, kind: Any) -> Value:
    try:
        if kind is Timestamp:
            return Value(f"Timestamp(micros={micros_of_text(node.this.name)})", Timestamp)
        found = day_of_text(node.this.name)
    except ValueError:
        raise unknown(node.this) from None
    return Value(f"date({found.year}, {found.month}, {found.day})", date)


def cast_in_spark(node: exp.Cast) -> exp.Expr:
    """Return a cast in Spark's dialect: texts are cut and padded, and times are those of UTC."""
    to = node.to
    if to.is_type(Kind.TIME):
        raise QueryRefused("the type TIME")
    if node.this.is_type(*TEXTS) and to.is_type(Kind.DATE, *TIMESTAMPS, *FLOATS):
        return _of_text(node)
    if to.is_type(*TIMESTAMPS):
        return exp.Cast(this=node.this, to=exp.DataType.build("TIMESTAMPNTZ"))
    if to.is_type(Kind.DECIMAL) and not to.expressions:
        return exp.Cast(this=node.this, to=exp.DataType.build("DECIMAL(38, 18)"))
    if to.is_type(Kind.BOOLEAN) and node.this.is_type(*TEXTS):
        return SparkText.of(_BOOLEAN, node.this)
    if not to.is_type(*TEXTS) or to.is_type(Kind.TEXT):
        return node
    require_known(node.this)
    text = _text_in_spark(node)
    length, is_char = _length(node)
    if is_char:
        text = f"RPAD({text}, {length}, ' ')"
    elif length is not None:
        text = f"LEFT({text}, {length})"
    return SparkText.of(text, node.this)


def _of_text(node: exp.Cast) -> exp.Expr:
    """Cast a text to a time or a number; Spark also takes time zones, ``now``, and ``1d``."""
    text, to = node.this, node.to
    is_time = to.is_type(*TIMESTAMPS)
    name = "TIMESTAMP" if is_time else to.sql()
    kind = exp.DataType.build("TIMESTAMPNTZ") if is_time else to
    if isinstance(text, exp.Literal) and not to.is_type(*FLOATS):
        try:
            (micros_of_text if is_time else day_of_text)(text.name)
        except ValueError:
            raise QueryRefused(
                f"{shown(text.name)} as a {name}{place(text)}",
                "Write it without a time zone: TIMESTAMP '2024-01-31 12:00:00'."
                if is_time
                else "Write it as DATE '2024-01-31'.",
            ) from None
        return exp.Cast(this=text, to=kind)
    pattern = _TIMESTAMP if is_time else _DATE if to.is_type(Kind.DATE) else _REAL
    return SparkText.of(
        f"CASE WHEN {{0}} IS NULL OR {{0}} RLIKE '{pattern}' THEN CAST({{0}} AS {{type}}) "
        f"ELSE CAST(RAISE_ERROR('A SQL string is not a {name}.') AS {{type}}) END",
        text,
        type=kind,
    )


_CLOCK = "[0-9][0-9]?:[0-9][0-9]?(:[0-9][0-9]?([.][0-9]{0,9})?)?"
_DAY = r"(?s)^\\s*[0-9][0-9][0-9][0-9](-[0-9][0-9]?(-[0-9][0-9]?([ T]%s)?)?)?\\s*$"
_DATE, _TIMESTAMP, _REAL = _DAY % ".*", _DAY % _CLOCK, r"[^dDfF\\s]\\s*$|[nN][fF]\\s*$"
"""Texts of dates, of timestamps and of numbers, within a string of Spark."""

_BOOLEAN = (
    "CASE UPPER(TRIM({0})) WHEN 'TRUE' THEN TRUE WHEN 'FALSE' THEN FALSE "
    "ELSE IF({0} IS NULL, NULL, CAST(RAISE_ERROR('A SQL string is not a BOOLEAN.') AS BOOLEAN)) END"
)


def _text_in_spark(node: exp.Cast) -> str:
    text = "CAST({0} AS STRING)"
    if node.this.is_type(Kind.BOOLEAN):
        return f"UPPER({text})"
    if node.this.is_type(*FLOATS):
        return f"IF({{0}} = 0, '0E0', {text})"
    if node.this.is_type(Kind.DECIMAL):
        if _fixed_scale(node) is None:
            text = f"TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM {text}))"
        return f"REGEXP_REPLACE({text}, '^(-?)0[.]', '$1.')"
    return text
