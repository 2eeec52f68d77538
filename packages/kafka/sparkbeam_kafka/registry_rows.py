"""Rows of records whose schemas are in a schema registry."""

from collections.abc import Callable
from typing import Any

from sparkbeam.common.arguments import listed
from sparkbeam.errors import ConfigurationError
from sparkbeam_kafka import upstream as yaml_payloads
from sparkbeam_kafka.avro_rows import avro_rows, read, without_logical_types
from sparkbeam_kafka.registry import (
    AVRO,
    JSON,
    Registered,
    Registry,
    RegistryError,
    RegistryUnavailable,
    put_together,
    split_header,
)


def parser(
    name: str, registry: Registry, subject: str, format: str = AVRO
) -> tuple[Any, Callable[[bytes], Any]]:
    """Return the schema of the rows, and the function that makes a row of bytes.

    Args:
        name: of the transform, for errors.
        subject: the one whose latest schema the rows have.
        format: of the records, ``AVRO`` or ``JSON``.

    The function raises a ValueError for a record that makes no row, and a RegistryUnavailable where
    the registry is at fault.

    Raises:
        ConfigurationError: the registry has no such schema, or does not answer.
    """
    schema = _latest(name, registry, subject, format)
    if format == JSON:
        rows, from_json = yaml_payloads.parser(JSON, schema.tree)

        def parse(data: bytes) -> Any:
            return from_json(split_header(data)[1])

    else:
        rows, plain, to_row = avro_rows(schema.tree)

        def parse(data: bytes) -> Any:
            number, record = split_header(data)
            # Avro's rules of resolution apply: added fields have their defaults.
            return to_row(read(record, without_logical_types(registry.schema(number)), plain))

    def checked(data: bytes) -> Any:
        try:
            return parse(data)
        except (ValueError, RegistryUnavailable):
            raise
        except Exception as error:
            raise ValueError(f"{type(error).__name__}: {error}") from error

    return rows, checked


def formatter(name: str, registry: Registry, subject: str, kind: Any) -> Callable[[Any], bytes]:
    """Return the function that makes a record of a row by the latest Avro schema of a subject.

    Args:
        name: of the transform, for errors.

    Raises:
        ConfigurationError: the registry has no such schema, or the rows do not have its fields.
    """
    schema = _latest(name, registry, subject, AVRO)
    fields = {field["name"]: field for field in schema.tree.get("fields", ())}
    given = yaml_payloads.field_names(kind)
    unknown = [field for field in given if field not in fields]
    missing = [at for at, field in fields.items() if at not in given and "default" not in field]
    if unknown or missing:
        problem = f"lacks {listed(unknown)}" if unknown else f"needs {listed(missing)}"
        raise ConfigurationError(
            f"{name}: the latest schema of {subject} {problem}, but the rows have "
            f"{listed(given)}. Register a schema that matches the rows, or select its fields."
        )
    encode = yaml_payloads.formatter(AVRO, schema.tree, kind)
    return lambda row: put_together(schema.number, encode(row))


def _latest(name: str, registry: Registry, subject: str, kind: str) -> Registered:
    try:
        return registry.latest(subject, kind)
    except RegistryError as error:
        raise ConfigurationError(f"{name}: {error}") from None
