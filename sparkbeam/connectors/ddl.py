"""Schemas in Spark's DDL, read without Spark."""

import re

from pyspark.sql import types

_SIMPLE = (
    *(types.BooleanType, types.ByteType, types.ShortType, types.IntegerType, types.LongType),
    *(types.FloatType, types.DoubleType, types.StringType, types.BinaryType),
    *(types.DateType, types.TimestampType, types.TimestampNTZType),
)
_TYPES = {name: kind for kind in _SIMPLE for name in (kind.typeName(), kind().simpleString())}
_FLAGS = re.ASCII | re.IGNORECASE | re.DOTALL
_COLUMN = re.compile(r"\s*([a-z_]\w*|`[^`]+`)(?:\s*:\s*|\s+)(\S.*?)(\s+not\s+null)?\s*", _FLAGS)
_NESTED = re.compile(r"(array|map|struct)\s*<(.*)>", _FLAGS)
_DECIMAL = re.compile(r"decimal\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?", _FLAGS)
_MAX_PRECISION = 38


def read_ddl(text: str) -> types.StructType | None:
    """Return a schema as of a session with default settings; None for DDL that only Spark reads.

    That is wrong DDL, DDL with comments, defaults or collations, and rarer types.
    """
    try:
        return _columns(text)
    except ValueError:
        return None


def _columns(text: str) -> types.StructType:
    fields = []
    for part in _split(text):
        found = _COLUMN.fullmatch(part)
        if found is None:
            raise ValueError(part)
        name, kind, required = found.groups()
        fields.append(types.StructField(name.strip("`"), _type(kind), required is None))
    return types.StructType(fields)


def _type(text: str) -> types.DataType:
    name = text.strip().lower()
    if name in _TYPES:
        return _TYPES[name]()
    decimal = _DECIMAL.fullmatch(name)
    if decimal is not None:
        found = types.DecimalType(*(int(size) for size in decimal.groups() if size is not None))
        if found.scale <= found.precision <= _MAX_PRECISION:
            return found
    nested = _NESTED.fullmatch(text.strip())
    if nested is not None and nested[1].lower() == "struct":
        return _columns(nested[2])
    match nested and (nested[1].lower(), *_split(nested[2])):
        case ["array", element]:
            return types.ArrayType(_type(element))
        case ["map", key, value]:
            return types.MapType(_type(key), _type(value))
    raise ValueError(text)


def _split(text: str) -> list[str]:
    """Split at commas outside of brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "<(") - (character in ">)")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return parts
