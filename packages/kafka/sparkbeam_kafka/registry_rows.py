"""Rows of records whose schemas are in a schema registry."""

from collections.abc import Callable
from dataclasses import dataclass
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
        rows, to_row = yaml_payloads.parser(JSON, schema.tree)
        return rows, Faulted(JsonParser(to_row))
    rows, plain, to_row = avro_rows(schema.tree)
    return rows, Faulted(Parser(registry, plain, to_row))


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
    return Formatter(schema.number, yaml_payloads.formatter(AVRO, schema.tree, kind))


def _latest(name: str, registry: Registry, subject: str, kind: str) -> Registered:
    try:
        return registry.latest(subject, kind)
    except RegistryError as error:
        raise ConfigurationError(f"{name}: {error}") from None


@dataclass(frozen=True)
class Faulted:
    """A parser whose errors tell faults of records from those of the registry."""

    parse: Callable[[bytes], Any]

    def __call__(self, data: bytes) -> Any:
        """Return the row of a record.

        Raises:
            ValueError: there is something wrong with it.
            RegistryUnavailable: the registry does not answer.
        """
        try:
            return self.parse(data)
        except (ValueError, RegistryUnavailable):
            raise
        except Exception as error:
            raise ValueError(f"{type(error).__name__}: {error}") from error


@dataclass(frozen=True)
class JsonParser:
    """Decoding of JSON behind the id of its schema.

    Args:
        to_row: makes a row of JSON.
    """

    to_row: Callable[[bytes], Any]

    def __call__(self, data: bytes) -> Any:
        """Return the row in the value of a record.

        Raises:
            ValueError: it has another form, or does not fit the schema.
        """
        return self.to_row(split_header(data)[1])


@dataclass(frozen=True)
class Formatter:
    """Encoding of rows behind the id of their schema.

    Args:
        encode: makes bytes of a row.
    """

    number: int
    encode: Callable[[Any], bytes]

    def __call__(self, row: Any) -> bytes:
        """Return the value of a record."""
        return put_together(self.number, self.encode(row))


class Parser:
    """Decoding of records by the schemas that they name, as rows of another one.

    Avro's rules of resolution apply: added fields have their defaults.
    """

    def __init__(self, registry: Registry, schema: dict[str, Any], to_row: Any) -> None:
        self._registry = registry
        self._schema = schema
        self._to_row = to_row

    def __call__(self, data: bytes) -> Any:
        """Return the row in the value of a record.

        Raises:
            ValueError: it has another form, or does not fit the schema.
            RegistryError: the registry has no schema of it, or does not answer.
        """
        number, record = split_header(data)
        writer = without_logical_types(self._registry.schema(number))
        return self._to_row(read(record, writer, self._schema))
