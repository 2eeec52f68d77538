"""Rows of PCollections as rows of tables, and back.

Fields of types that Spark does not have are opaque: a query can hand them on. They travel in a
struct whose field tells their type.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from functools import cached_property
from typing import Any, Optional

import apache_beam as beam
from apache_beam import coders
from apache_beam.pvalue import PCollection
from apache_beam.transforms.trigger import DefaultTrigger
from apache_beam.transforms.window import GlobalWindows
from apache_beam.typehints.row_type import RowTypeConstraint
from apache_beam.typehints.schemas import named_tuple_from_schema
from pyspark.sql import types as st

from sparkbeam.common.arguments import shown
from sparkbeam.common.display_text import shortened
from sparkbeam.connectors.schemas import row_constraint, row_type, spark_field, without_none
from sparkbeam.errors import ConfigurationError

_OPAQUE = "sparkbeam_opaque_"

_FURTHER: Mapping[Any, st.DataType] = {Decimal: st.DecimalType(38, 18), date: st.DateType()}
"""Types of columns that have no type in Beam's rows that would tell all of theirs."""


@dataclass(frozen=True)
class SqlRows:
    """A PCollection as a table.

    Attributes:
        opaque: the types of opaque fields, by their names in structs.
    """

    name: str
    pcollection: PCollection[Any]
    schema: st.StructType
    opaque: Mapping[str, Any]

    @classmethod
    def of(cls, pcollection: PCollection[Any], name: str) -> "SqlRows":
        """Derive the table of a PCollection.

        Raises:
            ConfigurationError: it has no schema.
        """
        kind: Any = pcollection.element_type
        rows = row_constraint(kind)
        if rows is None:
            raise ConfigurationError(
                f"The input {shown(name)} has no schema: its elements are of type "
                f"{shortened(str(kind), 80)}. Convert them to rows with beam.Row(id=…) or "
                "beam.Select, or declare a NamedTuple as their type with with_output_types(…)."
            )
        opaque: dict[str, Any] = {}
        fields: list[st.StructField] = []
        for field, part in rows._fields:
            column = _column(field, part)
            if column is None:
                inner = f"{_OPAQUE}{name.encode().hex()}_{len(fields)}"
                opaque[inner] = part
                struct = st.StructType([st.StructField(inner, st.BinaryType())])
                column = st.StructField(field, struct, nullable=False)
            fields.append(column)
        return cls(name, pcollection, st.StructType(fields), opaque)

    @property
    def types(self) -> dict[str, str]:
        """The names of the types of the columns."""
        return {field.name: field.dataType.simpleString() for field in self.schema.fields}

    @property
    def kinds(self) -> dict[str, tuple[Any, bool]]:
        """The Python types of the columns, and whether they may be None."""
        return {name: without_none(kind) for name, kind in _fields(self.pcollection)}

    def narrowed(self, reads: Callable[[str], bool]) -> "SqlRows":
        """Return the table of the columns that are read."""
        fields = [field for field in self.schema.fields if reads(field.name)]
        return replace(self, schema=st.StructType(fields))

    def encoded(self) -> PCollection[Any]:
        """Return elements with the fields of the columns, of which opaque ones are encoded."""
        names = {field.name: _opaque_name(field) for field in self.schema.fields}
        if not any(names.values()):
            return self.pcollection
        kept = [field for field in _fields(self.pcollection) if field[0] in names]
        fields: list[tuple[str, Any]] = [
            (name, kind if inner is None else RowTypeConstraint.from_fields([(inner, bytes)]))
            for (name, kind), inner in zip(kept, names.values(), strict=True)
        ]
        made = RowTypeConstraint.from_fields(fields)
        changes = {
            name: _Encode(inner, coders.registry.get_coder(self.opaque[inner]))
            for name, inner in names.items()
            if inner is not None
        }
        encode = beam.Map(_Rows(made, changes)).with_output_types(made)
        return self.pcollection | f"Encode {self.name}" >> encode


def decoded(
    result: PCollection[Any], schema: st.StructType, tables: Iterable[SqlRows]
) -> PCollection[Any]:
    """Return the rows of a result with opaque fields decoded."""
    opaque = {name: kind for table in tables for name, kind in table.opaque.items()}
    names = {field.name: _opaque_name(field) for field in schema.fields}
    changes = {
        name: _Decode(inner, coders.registry.get_coder(opaque[inner]))
        for name, inner in names.items()
        if inner is not None
    }
    if not changes:
        return result
    fields = [
        (name, kind if inner is None else opaque[inner])
        for (name, kind), inner in zip(_fields(result), names.values(), strict=True)
    ]
    made = RowTypeConstraint.from_fields(fields)
    return result | "Decode" >> beam.Map(_Rows(made, changes)).with_output_types(made)


def result_type(schema: st.StructType) -> RowTypeConstraint:
    """Return the type of the rows of a result."""
    dates = {True: Optional[date], False: date}  # noqa: UP045
    types: list[tuple[str, Any]] = [
        (name, dates[field.nullable] if isinstance(field.dataType, st.DateType) else kind)
        for (name, kind), field in zip(row_type(schema)._fields, schema.fields, strict=True)
    ]
    return RowTypeConstraint.from_fields(types)


def _fields(rows: PCollection[Any]) -> list[tuple[str, Any]]:
    found = row_constraint(rows.element_type)
    assert found is not None
    return list(found._fields)


def is_whole(rows: PCollection[Any]) -> bool:
    """Return whether rows are in the global window, which never ends."""
    windowing = rows.windowing
    is_global = isinstance(windowing.windowfn, GlobalWindows)
    return is_global and isinstance(windowing.triggerfn, DefaultTrigger)


def _column(name: str, kind: Any) -> st.StructField | None:
    """Return the column of a field; None if Spark has no such type."""
    inner, nullable = without_none(kind)
    found = _FURTHER.get(inner) if isinstance(inner, Hashable) else None
    field = spark_field(name, kind) if found is None else st.StructField(name, found, nullable)
    return None if field is None else st.StructField(name, _in_utc(field.dataType), field.nullable)


def _in_utc(kind: st.DataType) -> st.DataType:
    """Return a type with timestamps that are independent of the time zone of the session."""
    match kind:
        case st.TimestampType():
            return st.TimestampNTZType()
        case st.ArrayType():
            return st.ArrayType(_in_utc(kind.elementType), kind.containsNull)
        case st.MapType():
            key, value = _in_utc(kind.keyType), _in_utc(kind.valueType)
            return st.MapType(key, value, kind.valueContainsNull)
        case st.StructType():
            parts = [st.StructField(f.name, _in_utc(f.dataType), f.nullable) for f in kind.fields]
            return st.StructType(parts)
    return kind


def _opaque_name(field: st.StructField) -> str | None:
    """Return the name of an opaque field in its struct; None if the field is not opaque."""
    kind = field.dataType
    if isinstance(kind, st.StructType) and kind.names and kind.names[0].startswith(_OPAQUE):
        return str(kind.names[0])
    return None


@dataclass(frozen=True)
class _Encode:
    name: str
    coder: coders.Coder

    def __call__(self, value: Any) -> Any:
        return beam.Row(**{self.name: self.coder.encode(value)})


@dataclass(frozen=True)
class _Decode:
    name: str
    coder: coders.Coder

    def __call__(self, value: Any) -> Any:
        return None if value is None else self.coder.decode(getattr(value, self.name))


class _Rows:
    """Change of some fields of rows.

    Args:
        changes: the changes by the name of the field.
    """

    def __init__(
        self, made: RowTypeConstraint, changes: Mapping[str, Callable[[Any], Any]]
    ) -> None:
        self._names = [name for name, _ in made._fields]
        self._changes = changes
        self._coder: Any = coders.registry.get_coder(made)

    @cached_property
    def _make(self) -> Callable[[Iterable[Any]], Any]:
        """The function from fields to a row, which each process makes for itself."""
        kind: Any = named_tuple_from_schema(self._coder.schema)
        make: Callable[[Iterable[Any]], Any] = kind._make
        return make

    def __call__(self, row: Any) -> Any:
        return self._make(
            self._changes[name](getattr(row, name)) if name in self._changes else getattr(row, name)
            for name in self._names
        )
