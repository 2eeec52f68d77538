"""Remedies for errors of Kafka, whose source and sink in Spark need no package beside the core."""

import re
from collections.abc import Mapping

from sparkbeam.upstream.spark import KAFKA_FAILED, KAFKA_LOST

CHECK_KAFKA = "Check bootstrap.servers, the login and the topics."
"""The remedy for a Kafka that refuses or does not answer."""

_REMEDIES: Mapping[str, str] = {
    r"RecordTooLarge|max\.request\.size|(?i:message size too large)|MSG_SIZE_TOO_LARGE": (
        "Write smaller records, or raise max.request.size in producer_config and max.message.bytes "
        "of the topic."
    ),
    r"AuthorizationException|(?i:authorization failed)": (
        "Grant the login access to the topics, the group and the transactional id."
    ),
    r"InvalidTopicException": "Correct the name of the topic.",
}
_GONE = (
    "The records have expired, or the topic was deleted and recreated: set "
    "auto.offset.reset=earliest in consumer_config (in ReadFromSpark, failOnDataLoss=false) to "
    "continue with the first remaining record, or start with another --checkpoint_location."
)
_OF_CLIENT = "KafkaError: "


def is_of_kafka(text: str) -> bool:
    """Return whether an error comes from Spark's source or sink of Kafka."""
    return bool(KAFKA_FAILED.search(text) or KAFKA_LOST.search(text))


def kafka_remedy(text: str) -> str:
    """Return the remedy for an error of Kafka; empty for other errors."""
    if KAFKA_LOST.search(text):
        return _GONE
    if not (KAFKA_FAILED.search(text) or text.startswith(_OF_CLIENT)):
        return ""
    found = (remedy for cause, remedy in _REMEDIES.items() if re.search(cause, text))
    return next(found, CHECK_KAFKA)
