"""Assignment of the columns of rows to those of a table that exists."""

from collections.abc import Iterable

from pyspark.sql import types as st

from sparkbeam.common.arguments import shown
from sparkbeam.errors import ConfigurationError


def check_assignment(pairs: Iterable[tuple[st.StructField, st.StructField]], table: str) -> None:
    """Check that columns keep the digits behind the point, which Spark and databases would cut.

    Args:
        pairs: the columns of the rows, each with that of the table.
        table: the name of the table.

    Raises:
        ConfigurationError: a column of the table has fewer digits.
    """
    for field, column in pairs:
        cut = _cut(field.dataType, column.dataType, field.name)
        if cut is not None:
            path, source, target = cut
            raise ConfigurationError(
                f"The field {shown(path)} is of type {source.simpleString()}, but the table "
                f"{shown(table)} has {target.simpleString()} there, which would truncate digits: "
                "convert the values, and give the field the type of the column."
            )


def _cut(
    source: st.DataType, target: st.DataType, path: str
) -> tuple[str, st.DataType, st.DataType] | None:
    """Return the path to a part of a type that loses digits, with both types."""
    match source, target:
        case st.ArrayType(), st.ArrayType():
            return _cut(source.elementType, target.elementType, f"{path}[]")
        case st.MapType(), st.MapType():
            key = _cut(source.keyType, target.keyType, f"{path}.key")
            return key or _cut(source.valueType, target.valueType, f"{path}.value")
        case st.StructType(), st.StructType():
            kinds = {field.name.lower(): field.dataType for field in target}
            parts = (
                _cut(field.dataType, kinds[field.name.lower()], f"{path}.{field.name}")
                for field in source
                if field.name.lower() in kinds
            )
            return next(filter(None, parts), None)
    digits = source.scale if isinstance(source, st.DecimalType) else 1
    if not isinstance(source, st.FractionalType) or not isinstance(target, st.NumericType):
        return None
    if isinstance(target, st.IntegralType):
        room = 0
    else:
        room = target.scale if isinstance(target, st.DecimalType) else digits
    return (path, source, target) if digits > room else None
