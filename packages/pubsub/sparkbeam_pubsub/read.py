"""Beam's ``ReadFromPubSub`` as a splittable DoFn that pulls messages and acknowledges them."""

import functools
import importlib
import sys
import uuid
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.options.pipeline_options import GoogleCloudOptions
from apache_beam.pipeline import Pipeline
from apache_beam.pvalue import PBegin, PCollection
from apache_beam.transforms.core import RestrictionProvider
from apache_beam.transforms.deduplicate import DeduplicatePerKey
from apache_beam.transforms.window import GlobalWindow, TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from sparkbeam.common.missing_client import missing_client
from sparkbeam_pubsub.upstream import elements, source_of
from sparkbeam_pubsub.watermark import SampledWatermark

PACKAGE = "google-cloud-pubsub"

_MOST_MESSAGES = 1000
_PULL_SECONDS = 2.0
_ACK_SECONDS = 60
_EXPIRES_SECONDS = 24 * 60 * 60
"""Pub/Sub deletes a subscription that nobody has pulled for this time, the least that it takes."""

_ID_SECONDS = 600
"""Time for which ids of messages are kept, as Dataflow does."""


def read(transform: Any, pipeline: Pipeline) -> beam.PTransform[Any, Any]:
    """Return the replacement of a ``ReadFromPubSub``.

    Raises:
        ConfigurationError: the client library is not installed.
    """
    client_library("ReadFromPubSub")
    found = _ReadMessages(transform)
    found.label = transform.label
    return found


def client_library(transform: str) -> Any:
    """Return Google's module; raises a ``ConfigurationError`` that names the transform."""
    try:
        return importlib.import_module("google.cloud.pubsub")
    except ImportError:
        raise missing_client(transform, PACKAGE) from None


class _ReadMessages(beam.PTransform[PBegin, PCollection[Any]]):
    """Reads the messages of a subscription."""

    def __init__(self, transform: Any) -> None:
        super().__init__()
        self._transform = transform
        self._source = source_of(transform)

    def expand(self, pbegin: PBegin) -> PCollection[Any]:
        source = self._source
        if source.full_subscription is not None:
            names = pbegin | "Subscription" >> beam.Create([source.full_subscription])
        else:
            options = pbegin.pipeline.options.view_as(GoogleCloudOptions)
            subscribe = _Subscribe(options.project or source.project)
            topics = pbegin | "Topic" >> beam.Create([source.full_topic])
            names = topics | "Subscribe" >> beam.Map(subscribe).with_output_types(str)
        pulled = names | "Pull" >> beam.ParDo(_Pull(source)).with_output_types(tuple[str, bytes])
        if source.id_label is not None:
            pulled |= "Deduplicate" >> _Deduplicate()
        messages = pulled | "Messages" >> beam.Values().with_output_types(bytes)
        return elements(self._transform, messages)


class _Deduplicate(beam.PTransform[PCollection[tuple[str, bytes]], PCollection[tuple[str, bytes]]]):
    """The first message with an id.

    The timers that forget ids hold the watermark at the timestamps of their elements. These have
    the last one, and get theirs back afterwards.
    """

    def expand(self, pulled: PCollection[tuple[str, bytes]]) -> PCollection[tuple[str, bytes]]:
        timed = pulled | "Timed" >> beam.Map(_at_the_end).with_output_types(
            tuple[str, tuple[int, bytes]]
        )
        first = timed | "First" >> DeduplicatePerKey(processing_time_duration=_ID_SECONDS)
        return first | "Untimed" >> beam.MapTuple(_at_its_time).with_output_types(tuple[str, bytes])


def _at_the_end(
    message: tuple[str, bytes], time: Any = beam.DoFn.TimestampParam
) -> TimestampedValue[tuple[str, tuple[int, bytes]]]:
    key, data = message
    return TimestampedValue((key, (time.micros, data)), GlobalWindow().max_timestamp())


def _at_its_time(key: str, timed: tuple[int, bytes]) -> TimestampedValue[tuple[str, bytes]]:
    micros, data = timed
    return TimestampedValue((key, data), Timestamp(micros=micros))


class _Subscribe:
    """Creation of a subscription to a topic."""

    def __init__(self, project: str) -> None:
        self._project = project

    def __call__(self, topic: str) -> str:
        name = f"projects/{self._project}/subscriptions/beam_{uuid.uuid4().hex}"
        _subscriber().create_subscription(
            request={
                "name": name,
                "topic": topic,
                "ack_deadline_seconds": _ACK_SECONDS,
                "expiration_policy": {"ttl": {"seconds": _EXPIRES_SECONDS}},
            }
        )
        return name


class _Pulls(RestrictionProvider):
    """Numbers of pulls, without an end."""

    def initial_restriction(self, element: str) -> OffsetRange:
        return OffsetRange(0, sys.maxsize)

    def create_tracker(self, restriction: OffsetRange) -> OffsetRestrictionTracker:
        return OffsetRestrictionTracker(restriction)

    def restriction_size(self, element: str, restriction: OffsetRange) -> int:
        return 1


class _Pull(beam.DoFn):
    """Pull of messages, which are acknowledged once their bundle is committed.

    Elements are pairs of the id of a message and the message or its data.
    """

    def __init__(self, source: Any) -> None:
        self._source = source

    @beam.DoFn.unbounded_per_element()
    def process(
        self,
        subscription: str,
        finalizer: Any = beam.DoFn.BundleFinalizerParam,
        tracker: Any = beam.DoFn.RestrictionParam(_Pulls()),
        watermark: Any = beam.DoFn.WatermarkEstimatorParam(SampledWatermark()),
    ) -> Iterator[TimestampedValue[tuple[str, bytes]]]:
        number = tracker.current_restriction().start
        while tracker.try_claim(number):
            received = _pulled(subscription)
            for each in received:
                yield TimestampedValue(self._element(each.message), self._time(each.message))
            if received:
                finalizer.register(_Acknowledge(subscription, [each.ack_id for each in received]))
            else:
                watermark.caught_up()
                tracker.defer_remainder()
                return
            number += 1

    def _element(self, message: Any) -> tuple[str, bytes]:
        label = self._source.id_label
        key = (message.attributes.get(label) if label else None) or message.message_id
        if not self._source.with_attributes:
            return key, message.data
        return key, type(message).serialize(message)

    def _time(self, message: Any) -> Timestamp:
        """Return the timestamp of a message.

        Raises:
            ValueError: the attribute has neither milliseconds nor a time in RFC 3339.
        """
        name = self._source.timestamp_attribute
        given = message.attributes.get(name) if name else None
        if given is None:
            return Timestamp.from_utc_datetime(message.publish_time)
        try:
            return Timestamp(micros=int(given) * 1000)
        except ValueError:
            return Timestamp.from_rfc3339(given)


def _pulled(subscription: str) -> Any:
    """Return messages that nobody has acknowledged; few or none if there are none soon."""
    from google.api_core.exceptions import DeadlineExceeded

    try:
        response = _subscriber().pull(
            request={"subscription": subscription, "max_messages": _MOST_MESSAGES},
            timeout=_PULL_SECONDS,
        )
    except DeadlineExceeded:
        return ()
    return response.received_messages


class _Acknowledge:
    """Acknowledgement of messages.

    Args:
        subscription: from which they are.
    """

    def __init__(self, subscription: str, ids: list[str]) -> None:
        self._subscription = subscription
        self._ids = ids

    def __call__(self) -> None:
        _subscriber().acknowledge(
            request={"subscription": self._subscription, "ack_ids": self._ids}
        )


@functools.cache
def _subscriber() -> Any:
    """Return the client of this process; acknowledgements outlive the DoFn that has pulled."""
    return client_library("ReadFromPubSub").SubscriberClient()
