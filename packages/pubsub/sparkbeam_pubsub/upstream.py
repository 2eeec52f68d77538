"""Assumptions about Beam's transforms of Pub/Sub."""

from dataclasses import dataclass
from typing import Any

from apache_beam.io.gcp.pubsub import ReadFromPubSub
from apache_beam.pvalue import PCollection


@dataclass(frozen=True)
class Source:
    """Arguments of a ``ReadFromPubSub``.

    Attributes:
        project: of the topic or the subscription.
        topic: its full name, or None.
        subscription: its full name, or None.
        id_label: the attribute with the id of a message, or None.
        timestamp_attribute: the attribute with the timestamp of a message, or None.
    """

    project: str
    topic: str | None
    subscription: str | None
    id_label: str | None
    timestamp_attribute: str | None
    with_attributes: bool

    @classmethod
    def of(cls, transform: ReadFromPubSub) -> "Source":
        """Return the arguments of a transform."""
        given = transform._source
        return cls(
            given.project,
            given.full_topic,
            given.full_subscription,
            given.id_label,
            given.timestamp_attribute,
            given.with_attributes,
        )


def elements(transform: ReadFromPubSub, messages: PCollection[bytes]) -> PCollection[Any]:
    """Return the elements of messages.

    Args:
        messages: serialized with attributes, otherwise their data.
    """
    return transform.expand_continued(messages)
