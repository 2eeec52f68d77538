"""Assumptions about how Beam YAML reads and writes the payloads of messages."""

from collections.abc import Callable, Mapping
from typing import Any

import apache_beam as beam
from apache_beam.typehints import schemas


def parser(format: str, schema: Mapping[str, Any] | None) -> tuple[Any, Callable[[Any], Any]]:
    """Return the schema of the rows in messages, and the function that makes a row of bytes.

    Args:
        format: ``RAW``, ``STRING`` or ``JSON``.
        schema: in the form of the format; None for the first two.
    """
    from apache_beam.yaml import yaml_io

    found: tuple[Any, Callable[[Any], Any]] = yaml_io._create_parser(format, schema)
    return found


def avro_schema(schema: Any) -> Any:
    """Return Beam's schema of the rows of an Avro record."""
    from apache_beam.io import avroio

    return avroio.avro_schema_to_beam_schema(schema)


def formatter(format: str, schema: Mapping[str, Any] | None, kind: Any) -> Callable[[Any], bytes]:
    """Return the function that makes bytes of a row.

    Args:
        format: ``RAW``, ``JSON`` or ``AVRO``.
        schema: in the form of the format; None for that of the rows.
        kind: the type of the rows.
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
        expand: applies transforms to elements.
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
