"""Rows of records whose Avro schemas are in a schema registry."""

import io
from typing import Any

from sparkbeam.errors import ConfigurationError
from sparkbeam.kafka.registry import Registry, RegistryError, taken_apart
from sparkbeam.upstream import yaml_payloads


def parser(name: str, registry: Registry, subject: str) -> tuple[Any, "Parser"]:
    """Return the schema of the rows, and the function that makes a row of bytes.

    Args:
        name: of the transform, for errors.
        registry: has the schemas.
        subject: the one whose latest schema the rows have.

    Raises:
        ConfigurationError: the registry has no such schema, or does not answer.
    """
    try:
        schema = registry.latest(subject)
    except RegistryError as error:
        raise ConfigurationError(f"{name}: {error}") from None
    rows, to_row = yaml_payloads.avro_rows(schema)
    return rows, Parser(registry, schema, to_row)


class Parser:
    """Decoding of records by the schemas that they name, as rows of another one.

    Avro's rules of resolution apply: added fields have their defaults.

    Args:
        registry: has the schemas.
        schema: of the rows.
        to_row: makes a row of a record.
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
        import fastavro

        number, record = taken_apart(data)
        writer = self._registry.schema(number)
        return self._to_row(fastavro.schemaless_reader(io.BytesIO(record), writer, self._schema))
