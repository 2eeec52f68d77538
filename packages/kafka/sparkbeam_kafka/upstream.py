"""Assumptions about how Beam YAML reads and writes the payloads of messages."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import apache_beam as beam
from apache_beam.portability.api import schema_pb2
from apache_beam.typehints import schemas

_HANDLING = inspect.signature(beam.ParDo.with_exception_handling).parameters
ERROR_HANDLING = {"output", *_HANDLING} - {"self", "dead_letter_tag"}
"""The keys of ``error_handling``."""


def parser(format: str, schema: Mapping[str, Any] | None) -> tuple[Any, Callable[[Any], Any]]:
    """Return the schema of the rows in messages, and the function that makes a row of bytes.

    Args:
        format: ``RAW``, ``STRING`` or ``JSON``.
        schema: in the form of the format; None for the first two.
    """
    from apache_beam.yaml import json_utils, yaml_io

    if format == "JSON" and schema:
        kind = schema_pb2.FieldType()
        rows = json_utils.json_schema_to_beam_schema(_without_null(schema))
        kind.row_type.schema.CopyFrom(rows)
        _allow_nulls(schema, kind)
        return kind.row_type.schema, json_utils.json_parser(kind.row_type.schema, dict(schema))
    found: tuple[Any, Callable[[Any], Any]] = yaml_io._create_parser(format, schema)
    return found


_SCHEMAS = ("items", "additionalProperties")


def _without_null(schema: Any) -> Any:
    """Return a JSON schema with types in place of lists of a type and null, as Beam's rows need.

    Raises:
        ValueError: a list has more types, or an array has none.
    """
    if not isinstance(schema, dict):
        return schema
    found = {key: _without_null(one) if key in _SCHEMAS else one for key, one in schema.items()}
    if isinstance(found.get("properties"), dict):
        found["properties"] = {
            name: _without_null(one) for name, one in found["properties"].items()
        }
    if isinstance(found.get("type"), list):
        types = [kind for kind in found["type"] if kind != "null"]
        if len(types) != 1:
            raise ValueError(f"a field has one type and may be null, not the types {found['type']}")
        found["type"] = types[0]
    if found.get("type") == "array" and "items" not in found:
        raise ValueError("an array needs 'items', the type of its values")
    return found


def _allow_nulls(schema: Any, kind: schema_pb2.FieldType) -> None:
    """Make those types nullable that are together with null in a JSON schema."""
    if isinstance(schema["type"], list) and "null" in schema["type"]:
        kind.nullable = True
    info = kind.WhichOneof("type_info")
    if info == "array_type":
        _allow_nulls(schema["items"], kind.array_type.element_type)
    elif info == "map_type":
        _allow_nulls(schema["additionalProperties"], kind.map_type.value_type)
    elif info == "row_type":
        for field in kind.row_type.schema.fields:
            _allow_nulls(schema["properties"][field.name], field.type)


def avro_schema(schema: Any) -> Any:
    """Return Beam's schema of the rows of an Avro record."""
    from apache_beam.io import avroio

    return avroio.avro_schema_to_beam_schema(schema)


def formatter(format: str, schema: Mapping[str, Any] | None, kind: Any) -> Callable[[Any], bytes]:
    """Return the function that makes bytes of a row.

    Args:
        format: ``RAW``, ``JSON`` or ``AVRO``.
        schema: in the form of the format; None for that of the rows.
    """
    from apache_beam.yaml import yaml_io

    found: Callable[[Any], bytes] = yaml_io._create_formatter(
        format, schema, schemas.schema_from_element_type(kind)
    )
    return found


def field_names(kind: Any) -> list[str]:
    """Return the names of the fields of rows of a type."""
    return [field.name for field in schemas.schema_from_element_type(kind).fields]


def row_type(schema: Any) -> Any:
    """Return the type of rows with a schema."""
    return schemas.named_tuple_from_schema(schema)


def with_errors(
    expand: Callable[[Any], Any],
    errors: Mapping[str, Any] | None,
    before: Callable[[Any], Any] = lambda given: given,
) -> "beam.PTransform[Any, Any]":
    """Return a transform whose functions put out elements on which they fail.

    Args:
        errors: Beam YAML's ``error_handling``, which names the output; None to fail.
        before: makes the elements, of which the error output has those that fail.
    """
    if errors is None:
        return _Expanded(lambda given: expand(before(given)))
    from apache_beam.yaml import yaml_errors

    handled = yaml_errors.maybe_with_exception_handling_transform_fn(expand)
    return _Expanded(lambda given: handled(before(given), error_handling=errors))


class _Expanded(beam.PTransform[Any, Any]):
    def __init__(self, expand: Callable[[Any], Any]) -> None:
        super().__init__()
        self._expand = expand

    def expand(self, given: Any) -> Any:
        return self._expand(given)
