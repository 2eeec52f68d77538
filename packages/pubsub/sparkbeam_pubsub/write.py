"""Beam's ``WriteToPubSub``, with the attributes that its DoFn leaves to runners."""

import uuid
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.io.gcp.pubsub import PubsubMessage, WriteToPubSub
from apache_beam.pipeline import Pipeline
from apache_beam.pvalue import PCollection

from sparkbeam_pubsub.read import client_library


def write(transform: Any, pipeline: Pipeline) -> beam.PTransform[Any, Any] | None:
    """Return the replacement of a ``WriteToPubSub``; None without attributes to add.

    Raises:
        ConfigurationError: the client library is not installed.
    """
    client_library("WriteToPubSub")
    if not (transform.id_label or transform.timestamp_attribute):
        return None
    found = _WriteMessages(transform)
    found.label = transform.label
    return found


class _WriteMessages(beam.PTransform[PCollection[Any], PCollection[Any]]):
    """Writes messages with an id or a timestamp."""

    def __init__(self, transform: WriteToPubSub) -> None:
        super().__init__()
        self._add = _AddAttributes(transform.id_label, transform.timestamp_attribute)
        self._write = WriteToPubSub(
            transform.full_topic,
            with_attributes=True,
            publish_with_ordering_key=transform.publish_with_ordering_key,
        )

    def expand(self, given: PCollection[Any]) -> PCollection[Any]:
        return (
            given
            | "Attributes" >> beam.ParDo(self._add).with_output_types(PubsubMessage)
            # A write that is repeated publishes the same ids.
            | beam.Reshuffle()
            | "Write" >> self._write
        )


class _AddAttributes(beam.DoFn):
    """Addition of attributes to messages.

    Args:
        id_label: the attribute for a unique id, or None.
        timestamp_attribute: the one for the timestamp in milliseconds, or None.
    """

    def __init__(self, id_label: str | None, timestamp_attribute: str | None) -> None:
        self._id_label = id_label
        self._timestamp_attribute = timestamp_attribute

    def process(
        self, given: Any, timestamp: Any = beam.DoFn.TimestampParam
    ) -> Iterator[PubsubMessage]:
        message = given if isinstance(given, PubsubMessage) else PubsubMessage(given, {})
        added = {}
        if self._id_label:
            added[self._id_label] = uuid.uuid4().hex
        if self._timestamp_attribute:
            added[self._timestamp_attribute] = str(timestamp.micros // 1000)
        yield PubsubMessage(
            message.data, {**(message.attributes or {}), **added}, ordering_key=message.ordering_key
        )
