"""Offsets at which a read of Kafka starts, and the client that asks for them."""

import json
from collections import defaultdict
from dataclasses import replace

from sparkbeam.errors import ConfigurationError, PipelineFailed
from sparkbeam.kafka.client import KafkaError, confluent_kafka
from sparkbeam.kafka.client_config import Use, client_config
from sparkbeam.plan.redaction import Redaction
from sparkbeam.plan.spark_io import ReadSpec

_STARTS = "startingOffsets"
_USE = Use(
    "isolation.level=read_committed",
    "the client that asks Kafka whether a partition has an open transaction",
    "leave out isolation.level, or the timestamps of the records (timestamp_policy, "
    "timestamp_column)",
)


def started(spec: ReadSpec, label: str) -> ReadSpec:
    """Return a specification that tells Spark the offsets to start at.

    Args:
        spec: of the read.
        label: of the transform that reads.

    Raises:
        ConfigurationError: Kafka cannot be asked with the given configuration.
        PipelineFailed: Kafka does not answer.
    """
    subscription = spec.subscription
    if subscription is None or subscription.start_time is not None:
        return spec
    hide = Redaction(spec.options)
    try:
        with subscription.client() as client:
            starts = subscription.starts(client)
    except ConfigurationError as error:
        raise ConfigurationError(f"'{label}': {hide(str(error))}") from None
    except KafkaError as error:
        raise PipelineFailed(
            f"Step '{label}' failed: Kafka cannot be asked for the offsets to start at: "
            f"{hide(str(error))} Check bootstrap.servers, the login and the topics.",
            label,
        ) from None
    topics: dict[str, dict[str, int]] = defaultdict(dict)
    for (topic, number), offset in starts.items():
        topics[topic][str(number)] = offset
    return replace(spec, options=(*spec.options, (_STARTS, json.dumps(topics))))


def check_ends(spec: ReadSpec, label: str) -> None:
    """Check that Kafka can be asked for open transactions, if a read hides their records.

    Raises:
        ConfigurationError: the package is missing, or the configuration has no counterpart.
    """
    if spec.hides_records:
        try:
            confluent_kafka()
            client_config(spec.kafka_settings, _USE)
        except ConfigurationError as error:
            raise ConfigurationError(f"'{label}': {error}") from None
