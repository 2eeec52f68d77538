"""Start of a read of Kafka at the committed offsets of a consumer group."""

import json
from collections import defaultdict
from dataclasses import replace

from sparkbeam.errors import ConfigurationError, PipelineFailed
from sparkbeam.kafka.client import KafkaError
from sparkbeam.plan.redaction import Redaction
from sparkbeam.plan.spark_io import ReadSpec

_STARTS = "startingOffsets"


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
