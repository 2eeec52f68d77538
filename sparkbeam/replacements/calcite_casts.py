"""Casts of SQL as expressions in Python."""

from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
from apache_beam.utils.timestamp import Timestamp
from sqlglot import exp

from sparkbeam.replacements.calcite_values import (
    BITS,
    KINDS,
    NUMBERS,
    REAL,
    Value,
    is_integer,
    strict,
    unknown,
)
from sparkbeam.replacements.sql_functions import day_of_text, micros_of_text


def cast(node: exp.Cast, value: Value) -> Value:
    """Return a value in another type.

    Args:
        node: the cast.
        value: the value.

    Raises:
        QueryRefused: there is no such cast in windows and in streaming.
    """
    kind = KINDS.get(node.to.this)
    if value.kind is Any:
        return Value(value.source, Any if kind is None else kind, nullable=True)
    if kind is str:
        return _text(node, value)
    if kind is Decimal:
        return _decimal(node, value)
    if kind is value.kind and not node.to.is_type(exp.DataType.Type.TINYINT):
        return value
    if kind in (date, Timestamp):
        return _time(node, kind, value)
    if kind not in NUMBERS or value.kind not in (*NUMBERS, str):
        raise unknown(node)
    if kind in REAL:
        text = "real_of_text({})" if value.kind is str else "float({})"
        return strict(kind, f"single({text})" if kind is np.float32 else text, value)
    text = "whole_of_text({})" if value.kind is str else "int({})"
    bits = 8 if node.to.is_type(exp.DataType.Type.TINYINT) else BITS.get(kind, 64)
    fits = is_integer(value.kind) and BITS.get(value.kind, 64) <= bits
    return strict(kind, text if fits else f"whole({text}, {bits})", value)


def _text(node: exp.Cast, value: Value) -> Value:
    sizes = _sizes(node)
    is_char = not node.to.is_type(exp.DataType.Type.VARCHAR, exp.DataType.Type.TEXT)
    if value.kind is str:
        text = "{}"
    elif value.kind is bool:
        text = "('TRUE' if {} else 'FALSE')"
    elif value.kind is Timestamp:
        text = "text_of_time({})"
    elif is_integer(value.kind) or value.kind is date:
        text = "str({})"
    else:
        raise unknown(node)
    length = sizes[0] if sizes else 1
    if sizes or is_char:
        text += f"[:{length}]"
    return strict(str, f"{text}.ljust({length})" if is_char else text, value)


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


def _time(node: exp.Cast, kind: Any, value: Value) -> Value:
    if value.kind is str and isinstance(node.this, exp.Literal):
        return _constant(node, kind)
    texts = {
        (str, date): "day_of_text({})",
        (str, Timestamp): "Timestamp(micros=micros_of_text({}))",
        (Timestamp, date): "day_of_time({})",
        (date, Timestamp): "time_of_day({})",
        (date, date): "{}",
        (Timestamp, Timestamp): "{}",
    }
    text = texts.get((value.kind, kind))
    if text is None:
        raise unknown(node)
    return strict(kind, text, value)


def _constant(node: exp.Cast, kind: Any) -> Value:
    try:
        if kind is Timestamp:
            return Value(f"Timestamp(micros={micros_of_text(node.this.name)})", Timestamp)
        found = day_of_text(node.this.name)
    except ValueError:
        raise unknown(node.this) from None
    return Value(f"date({found.year}, {found.month}, {found.day})", date)
