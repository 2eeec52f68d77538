"""Removal of events that a task has sent more than once."""

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.coders import TupleCoder, VarIntCoder
from apache_beam.pvalue import PCollection
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec

from pyspark_eventhubs.event_writer import SENT
from sparkbeam_eventhubs.hub_event import EventHubsEvent


class DropRepeats(beam.PTransform[PCollection[EventHubsEvent], PCollection[EventHubsEvent]]):
    """Drops repeated events of :class:`.WriteToEventHubs`; passes all others.

    A task numbers its events, and a repeated task sends the same events in the same order to the
    same partitions. So the numbers of a task increase in a partition, except for repeats.
    """

    def expand(self, events: PCollection[EventHubsEvent]) -> PCollection[EventHubsEvent]:
        keyed = events | "Sender" >> beam.Map(_with_sender).with_output_types(
            tuple[str, EventHubsEvent]
        )
        return keyed | "First" >> beam.ParDo(_First()).with_output_types(EventHubsEvent)


def _with_sender(event: EventHubsEvent) -> tuple[str, EventHubsEvent]:
    """Pair an event with its sender: the partition, the sink and the task.

    Events of other senders are spread by sequence number; they are never repeats.
    """
    sent = _sent(event)
    if sent is None:
        return f"{event.partition}//{event.sequence_number % 64}", event
    run, _, task, _ = sent
    return f"{event.partition}/{run}/{task}", event


def _sent(event: EventHubsEvent) -> tuple[str, int, int, int] | None:
    """Return run, micro-batch, task and number; None for other senders."""
    parts = (event.properties.get(SENT) or "").split("/")
    if len(parts) != 4 or not all(p.isdecimal() and len(p) < 19 for p in parts[1:]):
        return None
    run, batch, task, number = parts
    return run, int(batch), int(task), int(number)


class _First(beam.DoFn):
    """Keeps the position, micro-batch and number of a sender's last event."""

    LAST = ReadModifyWriteStateSpec("last", TupleCoder([VarIntCoder()] * 3))

    def process(
        self, element: tuple[str, EventHubsEvent], last: Any = beam.DoFn.StateParam(LAST)
    ) -> Iterator[EventHubsEvent]:
        _, event = element
        sent = _sent(event)
        if sent is None:
            yield event
            return
        _, batch, _, number = sent
        place, *before = last.read() or (-1, -1, -1)
        if event.sequence_number <= place:
            raise RuntimeError(
                f"Event {event.sequence_number} of partition {event.partition} arrived after event "
                f"{place}: drop_repeats=True needs the events of a partition in order."
            )
        if [batch, number] > before:
            last.write((event.sequence_number, batch, number))
            yield event
