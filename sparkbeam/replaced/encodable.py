"""Values that the coder of a type takes and gives back, told where they are made.

A coder refuses some values of its type, such as integers beyond 64 bits and lone surrogates. Behind
the step that makes them this ends the pipeline, whatever the step does with its own errors. Others
it changes: 2.5 of an integer becomes 2.
"""

import pickle
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import apache_beam as beam
from apache_beam import coders
from apache_beam.portability.api import schema_pb2

from sparkbeam.common.arguments import shown
from sparkbeam.plan.row_types import schema_in
from sparkbeam.upstream.lossy_coders import Loses, encoding, loses

_UNPICKLED = "cannot pickle"


class Encodable:
    """Check of the values of a type."""

    def __init__(self, kind: Any) -> None:
        coder = coders.registry.get_coder(kind)
        schema = coder.schema if isinstance(coder, coders.RowCoder) else None
        self._schema = None if schema is None else schema.SerializeToString()
        self._given = coder if schema is None else None

    @property
    def decides(self) -> bool:
        """False for a type whose values are all pickled."""
        return not isinstance(self._given, coders.PickleCoder)

    @cached_property
    def _type(self) -> schema_pb2.FieldType | None:
        if self._schema is None:
            return None
        row = schema_pb2.RowType(schema=schema_in(self._schema))
        return schema_pb2.FieldType(row_type=row)

    @cached_property
    def _coder(self) -> Any:
        return self._given if self._type is None else coders.RowCoder(self._type.row_type.schema)

    @cached_property
    def _encode(self) -> Callable[[Any], Any]:
        return encoding(self._coder)

    @cached_property
    def _loses(self) -> Loses | None:
        return loses(self._coder)

    def __getstate__(self) -> dict[str, Any]:
        return {"_schema": self._schema, "_given": self._given}

    def __call__(self, value: Any) -> None:
        """Check a value.

        Raises:
            ValueError: the coder does not take it, or changes it; the message names the field.
        """
        try:
            self._encode(value)
        except Exception as error:
            if _is_unpicklable(error):
                return
            raise ValueError(self._problem(value, error_text(error))) from None
        if self._loses and self._loses(value):
            changed = self._coder.decode(self._coder.encode(value))
            raise ValueError(self._problem(value, f"it would become {shown(changed)}"))

    def _problem(self, value: Any, reason: str) -> str:
        found = "" if self._type is None else _problem(self._type, value)
        return found or f"{shown(value)} cannot be encoded: {reason}"


def _is_unpicklable(error: Exception) -> bool:
    return isinstance(error, pickle.PicklingError) or _UNPICKLED in str(error)


def error_text(error: Exception) -> str:
    """Return the shortened text of an error, or its class if it has none."""
    return shown(str(error), 200)[1:-1] or type(error).__name__


@dataclass(frozen=True)
class _Leaf:
    """A value within a row, with its path and its type."""

    path: str
    kind: schema_pb2.FieldType
    value: Any

    @property
    def problem(self) -> str:
        """The reason why a coder refuses or changes it; empty if none does."""
        field = schema_pb2.Field(name="f", type=self.kind)
        coder = coders.RowCoder(schema_pb2.Schema(fields=[field]))
        try:
            coder.encode(beam.Row(f=self.value))
        except Exception as error:
            if _is_unpicklable(error):
                return ""
        else:
            is_lost = loses(coder)
            if is_lost is None or not is_lost(beam.Row(f=self.value)):
                return ""
        return f"field {self.path!r} of type {_name(self.kind)} cannot hold {shown(self.value)}"


def _problem(kind: schema_pb2.FieldType, row: Any) -> str:
    """Return what is wrong with the first such field; empty if there is none."""
    return next(filter(None, (leaf.problem for leaf in _leaves("", kind, row))), "")


def _leaves(path: str, kind: schema_pb2.FieldType, value: Any) -> Iterator[_Leaf]:
    """Yield the values within one that have no parts, or not those of their type."""
    info = kind.WhichOneof("type_info")
    has_elements = info in ("array_type", "iterable_type")
    if info == "row_type" and value is not None:
        for field in kind.row_type.schema.fields:
            name = f"{path}.{field.name}" if path else field.name
            yield from _leaves(name, field.type, getattr(value, field.name, None))
    elif info == "map_type" and isinstance(value, Mapping):
        for key, one in value.items():
            yield _Leaf(f"{path}, a key" if path else "a key", kind.map_type.key_type, key)
            yield from _leaves(f"{path}[{shown(key)}]", kind.map_type.value_type, one)
    elif has_elements and isinstance(value, list | tuple):
        element = getattr(kind, str(info)).element_type
        for number, one in enumerate(value):
            yield from _leaves(f"{path}[{number}]", element, one)
    else:
        yield _Leaf(path, kind, value)


def _name(kind: schema_pb2.FieldType) -> str:
    info = str(kind.WhichOneof("type_info"))
    if info == "atomic_type":
        found = schema_pb2.AtomicType.Name(kind.atomic_type).lower()
    else:
        found = kind.logical_type.urn if info == "logical_type" else info.removesuffix("_type")
    return f"{found} or null" if kind.nullable else found
