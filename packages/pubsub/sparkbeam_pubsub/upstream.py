"""Assumptions about Beam's transforms of Pub/Sub."""

from typing import Any

from apache_beam.io.gcp.pubsub import ReadFromPubSub
from apache_beam.pvalue import PCollection


def source_of(transform: ReadFromPubSub) -> Any:
    """Return the source of a ``ReadFromPubSub``, whose attributes are the arguments."""
    return transform._source


def elements(transform: ReadFromPubSub, messages: PCollection[bytes]) -> PCollection[Any]:
    """Return the elements of messages.

    Args:
        messages: serialized with attributes, otherwise their data.
    """
    return transform.expand_continued(messages)
