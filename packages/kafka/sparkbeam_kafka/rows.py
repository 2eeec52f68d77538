"""Records of Kafka as rows of a schema: the ``KAFKA`` of managed transforms and Beam YAML."""

from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any, Optional

import apache_beam as beam
from apache_beam.io.kafka import ReadFromKafka, WriteToKafka
from apache_beam.typehints import Tuple

from sparkbeam.common.arguments import listed, shown
from sparkbeam.errors import ConfigurationError
from sparkbeam.hooks.managed_config import ManagedConfig
from sparkbeam.replaced.encodable import Encodable, error_text
from sparkbeam_kafka import proto_rows, registry_rows
from sparkbeam_kafka import upstream as yaml_payloads
from sparkbeam_kafka.arguments import AUTO_COMMIT, RESET, SERVERS
from sparkbeam_kafka.avro_rows import avro_rows
from sparkbeam_kafka.avro_rows import read as read_avro
from sparkbeam_kafka.constructors import client_settings
from sparkbeam_kafka.registry import AVRO, JSON, SETTINGS, RegistryUnavailable, registry

_READ = ("RAW", "STRING", "JSON", "AVRO", "PROTO")
_WRITTEN = ("RAW", "JSON", "AVRO", "PROTO")
_REGISTRY, _SUBJECT = "confluent_schema_registry_url", "confluent_schema_registry_subject"
_REMEDY = (
    "Correct the record or the schema, or set error_handling, whose output gets these records and "
    "their errors."
)
_VALUE = Optional[bytes]  # noqa: UP045 - Beam's own types.
_HINTS = (
    "allow_duplicates",
    "offset_deduplication",
    "redistribute_by_record_key",
    "redistribute_num_keys",
)


def read(system: str, config: ManagedConfig) -> "beam.PTransform[Any, Any]":
    """Return a read of the values of a topic.

    Raises:
        ConfigurationError: a key has no meaning here, or a wrong value.
    """
    updates = client_settings(config, "consumer_config_updates")
    schema, parse = _parser(config, updates)
    updates = {name: value for name, value in updates.items() if name not in SETTINGS}
    # Java's transform makes up a group unless it is given one, and commits its offsets.
    committed = {AUTO_COMMIT: "true"} if "group.id" in updates else {}
    reset = config.text("auto_offset_reset_config")
    consumer = {
        SERVERS: config.required("bootstrap_servers", may_be_list=True),
        **({RESET: reset} if reset else {}),
        **committed,
        **updates,
    }
    topic = config.required("topic")
    records = ReadFromKafka(
        consumer,
        [topic],
        max_read_time=config.number("max_read_time_seconds"),
        redistribute=config.flag("redistribute"),
    )
    errors = _error_handling(config)
    if errors is not None and config.text(_REGISTRY):
        # No record is a dead letter because the registry is away.
        errors = {**errors, "exc_class": ValueError}
    config.ignore(*_HINTS)
    config.finish()

    kind = yaml_payloads.row_type(schema)
    check = Encodable(kind)

    def checked(data: Any) -> Any:
        try:
            row = parse(data)
            check(row)
        except RegistryUnavailable:
            raise
        except Exception as error:
            problem = f"A record of topic {shown(topic)} cannot be read as a row"
            raise ValueError(f"{problem}: {error_text(error)}. {_REMEDY}") from error
        return row

    # With errors= the output of the step is checked.
    to_row = checked if errors is None else lambda value: parse(value)

    def values(root: Any) -> Any:
        value = beam.Map(itemgetter(1)).with_output_types(_VALUE)
        return root | "Records" >> records | "Values" >> value

    def rows(values: Any) -> Any:
        found = values | "Parse" >> beam.Map(to_row)
        found.element_type = kind
        return found

    return yaml_payloads.with_errors(rows, errors, values)


def write(system: str, config: ManagedConfig) -> "beam.PTransform[Any, Any]":
    """Return a write of rows as the values of records without keys; raises like :func:`read`."""
    updates = client_settings(config, "producer_config_updates")
    url, subject = config.text(_REGISTRY), config.text(_SUBJECT)
    format, given = _format(config, _WRITTEN, AVRO if url else ""), config.tree("schema")
    if url or subject:
        _check_registry(config, (AVRO,), format, given)
    messages = _messages(config, given) if format == "PROTO" else None
    producer = {
        SERVERS: config.required("bootstrap_servers", may_be_list=True),
        **{name: value for name, value in updates.items() if name not in SETTINGS},
    }
    records = WriteToKafka(producer, config.required("topic"))
    errors = _error_handling(config)
    config.finish()

    def written(rows: Any) -> Any:
        if url:
            place = registry(config.name, url, updates)
            encode = registry_rows.formatter(config.name, place, subject, rows.element_type)
        else:
            encode = _encoder(config, format, given, messages, rows.element_type)
        pairs = rows | "Format" >> beam.Map(lambda row: (None, encode(row))).with_output_types(
            Tuple[Optional[bytes], bytes]  # noqa: UP045 - Beam's own types.
        )
        return pairs | "Records" >> records

    return yaml_payloads.with_errors(written, errors)


def _parser(config: ManagedConfig, consumer: Mapping[str, str]) -> tuple[Any, Any]:
    """Return the schema of the rows, and the function that makes a row of bytes."""
    url, subject = config.text(_REGISTRY), config.text(_SUBJECT)
    format = _format(config, _READ, AVRO if url else "RAW")
    given = config.tree("schema")
    if url or subject:
        _check_registry(config, (AVRO, JSON), format, given)
        place = registry(config.name, url, consumer)
        return registry_rows.parser(config.name, place, subject, format)
    if format == "PROTO":
        messages = _messages(config, given)
        return messages.schema, messages.row
    try:
        if format == "AVRO" and given:
            rows, plain, to_row = avro_rows(given)
            return rows, lambda data: to_row(read_avro(data, plain))
        return yaml_payloads.parser(format, given)
    except Exception as error:  # What Beam finds wrong with a schema.
        raise _wrong_schema(config, error) from None


def _error_handling(config: ManagedConfig) -> Mapping[str, Any] | None:
    errors = config.tree("error_handling")
    if errors is None:
        return None
    output = errors.get("output")
    unknown = [str(key) for key in errors if key not in yaml_payloads.ERROR_HANDLING]
    if unknown:
        problem = f"has {listed(unknown)}, which is not supported"
    elif not isinstance(output, str) or output in ("", errors.get("main_tag", "good")):
        problem = "does not name another output than that of the rows, 'good'"
    else:
        return errors
    raise ConfigurationError(
        f"{config.name}: error_handling={shown(errors)} {problem}. Name the output of the records "
        "that fail and of their errors: {'output': 'bad'}."
    )


def _check_registry(
    config: ManagedConfig, known: tuple[str, ...], format: str, schema: Mapping[str, Any] | None
) -> None:
    if not (config.text(_REGISTRY) and config.text(_SUBJECT)) or schema or format not in known:
        raise ConfigurationError(
            f"{config.name}: a schema registry needs {_REGISTRY} and {_SUBJECT} and the format "
            f"{' or '.join(known)}; leave schema out."
        )


def _messages(config: ManagedConfig, schema: Mapping[str, Any] | None) -> proto_rows.Messages:
    path, message = config.text("file_descriptor_path"), config.text("message_name")
    if schema or not (path and message):
        raise ConfigurationError(
            f"{config.name}: format='PROTO' needs file_descriptor_path and message_name; "
            f"{proto_rows.REMEDY}. A text schema is not supported, because it needs a compiler."
        )
    return proto_rows.messages(config.name, path, message)


def _encoder(
    config: ManagedConfig,
    format: str,
    schema: Mapping[str, Any] | None,
    messages: proto_rows.Messages | None,
    kind: Any,
) -> Callable[[Any], bytes]:
    """Return the function that makes bytes of a row."""
    if messages is not None:
        messages.check(config.name, yaml_payloads.field_names(kind))
        return messages.encoded
    try:
        return yaml_payloads.formatter(format, schema, kind)
    except Exception as error:
        raise _wrong_schema(config, error) from None


def _format(config: ManagedConfig, known: tuple[str, ...], default: str) -> str:
    format = (config.text("format") or default).upper()
    if format not in known:
        raise ConfigurationError(
            f"{config.name}: format={shown(format)} is not supported. Use one of "
            f"{listed(known)}, or use ReadFromKafka or WriteToKafka, whose values are bytes, and "
            "decode or encode them in a pipeline step."
        )
    return format


def _wrong_schema(config: ManagedConfig, error: Exception) -> ConfigurationError:
    return ConfigurationError(f"{config.name}: the schema does not match the format: {error}")
