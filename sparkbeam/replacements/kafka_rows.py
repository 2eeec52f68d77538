"""Records of Kafka as rows of a schema: the ``KAFKA`` of managed transforms and Beam YAML."""

from operator import itemgetter
from typing import Any, Optional

import apache_beam as beam
from apache_beam.io.kafka import ReadFromKafka, WriteToKafka
from apache_beam.typehints import Tuple

from sparkbeam.common.arguments import listed, shown
from sparkbeam.errors import ConfigurationError
from sparkbeam.replacements.kafka_arguments import AUTO_COMMIT, RESET, SERVERS
from sparkbeam.replacements.managed_config import ManagedConfig
from sparkbeam.upstream import yaml_payloads

_READ = ("RAW", "STRING", "JSON", "AVRO")
_WRITTEN = ("RAW", "JSON", "AVRO")
_WITHOUT = (
    "confluent_schema_registry_url",
    "confluent_schema_registry_subject",
    "file_descriptor_path",
    "message_name",
)
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
    format, given = _format(config, _READ, "RAW"), config.tree("schema")
    try:
        schema, parse = yaml_payloads.parser(format, given)
    except Exception as error:  # What Beam finds wrong with a schema.
        raise _wrong_schema(config, error) from None
    updates = config.texts("consumer_config_updates")
    # Java's transform makes up a group unless it is given one, and commits its offsets.
    committed = {AUTO_COMMIT: "true"} if "group.id" in updates else {}
    reset = config.text("auto_offset_reset_config")
    consumer = {
        SERVERS: config.required("bootstrap_servers"),
        **({RESET: reset} if reset else {}),
        **committed,
        **updates,
    }
    records = ReadFromKafka(
        consumer,
        [config.required("topic")],
        max_read_time=config.number("max_read_time_seconds"),
        redistribute=config.flag("redistribute"),
    )
    errors = config.tree("error_handling")
    config.ignore(*_HINTS)
    config.finish()

    def rows(root: Any) -> Any:
        values = root | "Records" >> records | "Values" >> beam.Map(itemgetter(1))
        found = values | "Parse" >> beam.Map(parse)
        found.element_type = yaml_payloads.row_type(schema)
        return found

    return yaml_payloads.with_errors(rows, errors)


def write(system: str, config: ManagedConfig) -> "beam.PTransform[Any, Any]":
    """Return a write of rows as the values of records without keys; raises like :func:`read`."""
    format = _format(config, _WRITTEN, "")
    given = config.tree("schema")
    producer = {
        SERVERS: config.required("bootstrap_servers"),
        **config.texts("producer_config_updates"),
    }
    records = WriteToKafka(producer, config.required("topic"))
    errors = config.tree("error_handling")
    config.finish()

    def written(rows: Any) -> Any:
        try:
            encode = yaml_payloads.formatter(format, given, rows.element_type)
        except Exception as error:
            raise _wrong_schema(config, error) from None
        pairs = rows | "Format" >> beam.Map(lambda row: (None, encode(row))).with_output_types(
            Tuple[Optional[bytes], bytes]  # noqa: UP045 - Beam's own types.
        )
        return pairs | "Records" >> records

    return yaml_payloads.with_errors(written, errors)


def _format(config: ManagedConfig, known: tuple[str, ...], default: str) -> str:
    refused = [key for key in _WITHOUT if config.given(key)]
    format = (config.text("format") or default).upper()
    if format not in known or refused:
        found = f"format={shown(format)}" if format not in known else listed(refused)
        raise ConfigurationError(
            f"{config.name}: {found} is not supported here. Give format as one of "
            f"{listed(known)} with its schema, or use ReadFromKafka and WriteToKafka, whose values "
            "are bytes, and decode or encode them in a step of the pipeline."
        )
    return format


def _wrong_schema(config: ManagedConfig, error: Exception) -> ConfigurationError:
    return ConfigurationError(f"{config.name}: the schema does not fit the format: {error}")
