"""Bounded reads of Kafka: a number of records, or what comes within a time."""

import time
from collections.abc import Iterator, Mapping
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PBegin, PCollection
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from sparkbeam_kafka import arguments as kafka_arguments
from sparkbeam_kafka.client import Client, Partition
from sparkbeam_kafka.policies import PROCESSING_TIME, TYPES, wrong_type
from sparkbeam_kafka.records import RecordForm
from sparkbeam_kafka.subscription import Subscription

Range = tuple[Partition, int, int]
"""A partition, its first offset to read and the one behind the last."""

_LOOK_SECONDS = 0.5


class ReadRanges(beam.PTransform[PBegin, PCollection[Any]]):
    """Reads ranges of offsets, which are chosen when the pipeline runs.

    Spark's source has no such end in streaming.
    """

    def __init__(self, given: Mapping[str, Any], form: RecordForm) -> None:
        super().__init__()
        self._subscription = kafka_arguments.subscription(given)
        self._subscription.check()
        self._given = given
        self._form = form

    def default_label(self) -> str:
        return "ReadFromKafka"

    def expand(self, pbegin: PBegin) -> PCollection[Any]:
        given = self._given
        choose = _Choose(
            self._subscription,
            given.get("max_num_records"),
            given.get("max_read_time"),
            given.get("stop_read_time"),
        )
        read = _Read(self._subscription, self._form, given["timestamp_policy"])
        records = (
            pbegin
            | beam.Impulse()
            | "Ranges" >> beam.ParDo(choose).with_output_types(tuple[tuple[str, int], int, int])
            | beam.Reshuffle()
            | "Records" >> beam.ParDo(read).with_output_types(self._form.type)
        )
        return kafka_arguments.redistributed(records, given)


class _Choose(beam.DoFn):
    """Choice of the ranges to read, once there are enough records or the time is over."""

    def __init__(
        self,
        subscription: Subscription,
        most: int | None,
        seconds: int | None,
        stop: int | None,
    ) -> None:
        self._subscription = subscription
        self._most = most
        self._seconds = seconds
        self._stop = stop

    def process(self, element: Any) -> Iterator[Range]:
        with self._subscription.client() as client:
            starts = self._subscription.starts(client)
            ends = self._ends(client, starts)
        for partition, start in starts.items():
            if ends[partition] > start:
                yield partition, start, ends[partition]

    def _ends(self, client: Client, starts: Mapping[Partition, int]) -> Mapping[Partition, int]:
        stops = None if self._stop is None else client.at_time(starts, self._stop)
        until = None if self._seconds is None else time.monotonic() + self._seconds
        ends, left = dict(starts), self._most
        while True:
            for partition, start in ends.items():
                stop = client.bounds(partition)[1] if stops is None else stops[partition]
                if left is None:
                    ends[partition] = stop
                elif stop > start:
                    ends[partition], found = _counted(client, (partition, start, stop), left)
                    left -= found
                if left == 0:
                    return ends
            if stops is not None or (until is not None and time.monotonic() >= until):
                return ends
            time.sleep(_LOOK_SECONDS)


def _counted(client: Client, within: Range, most: int) -> tuple[int, int]:
    """Return the end of the first records of a range, and their number.

    Offsets tell none: those of markers of transactions, and of records that are aborted or
    compacted, have no record.
    """
    found = 0
    for found, message in enumerate(client.records(*within), start=1):
        if found == most:
            return message.offset() + 1, found
    return within[2], found


class _Read(beam.DoFn):
    """Read of a range of offsets, with the timestamps of a policy."""

    def __init__(self, subscription: Subscription, form: RecordForm, policy: str) -> None:
        self._subscription = subscription
        self._form = form
        self._policy = policy

    def process(
        self, element: Range, finalizer: Any = beam.DoFn.BundleFinalizerParam
    ) -> Iterator[TimestampedValue[Any]]:
        partition, start, end = element
        with self._subscription.client() as client:
            for message in client.records(partition, start, end):
                yield TimestampedValue(self._form.element(message), self._time(message))
        if self._subscription.commits:
            finalizer.register(_Commit(self._subscription, partition, end))

    def _time(self, message: Any) -> Timestamp:
        if self._policy == PROCESSING_TIME:
            return Timestamp.now()
        kind, millis = message.timestamp()
        if kind - 1 != TYPES[self._policy]:
            raise ValueError(wrong_type(self._policy, str(kind - 1)))
        return Timestamp(micros=millis * 1000)


class _Commit:
    """Commit of the end of a range, once its records are processed."""

    def __init__(self, subscription: Subscription, partition: Partition, end: int) -> None:
        self._subscription = subscription
        self._partition = partition
        self._end = end

    def __call__(self) -> None:
        with self._subscription.client() as client:
            client.commit({self._partition: self._end})
