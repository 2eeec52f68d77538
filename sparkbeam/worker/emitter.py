"""The way of elements from one operation to the next."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from apache_beam.runners.worker import operations
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.plan.operator import BEAMS_OWN
from sparkbeam.upstream.beam import counter_of
from sparkbeam.worker.blocks import Block
from sparkbeam.worker.refusals import SCATTERED, count_refused_by
from sparkbeam.worker.slots import are_scattered, in_slots

_Many = TypeVar("_Many")


class Emitter:
    """The way from one operation to the next ones, for blocks and for single elements."""

    def __init__(self, consumers: list[operations.Operation], receiver: Any) -> None:
        self._receiver = receiver
        self._consumers = consumers
        self._take_assigned = all(getattr(one, "takes_assigned", False) for one in consumers)
        self._counter = counter_of(receiver)
        known = [getattr(consumer, "process_block", None) for consumer in consumers]
        # Who takes batches of Beam's making gets them from the receiver.
        self._in_blocks = (any(known) or not consumers) and not any(
            consumer.get_batching_preference().supports_batches
            for consumer, taker in zip(consumers, known, strict=True)
            if taker is None
        )
        self._takers: list[Callable[[Block], None]] = [
            taker or partial(_one_by_one, consumer)
            for consumer, taker in zip(consumers, known, strict=True)
        ]

    def block(self, block: Block) -> None:
        """Hand on many elements; if windows are assigned, to consumers that support that."""
        if not len(block):
            return
        if block.assigned is not None and not self._take_assigned and not are_scattered(block):
            for part in in_slots(block):
                self.block(part)
            return
        if not self._in_blocks or (
            len(block) == 1 if block.assigned is None else not self._take_assigned
        ):
            if block.column is not None and len(block) > 1:
                self._count_refused(block)
            receive = self._receiver.receive
            for element in block.elements():
                receive(element)
            return
        self.hand_on(self._takers, block, block.example(), len(block))

    def _count_refused(self, block: Block) -> None:
        """Count a block of columns with those that get its elements one by one."""
        for consumer in self._consumers:
            if getattr(consumer, "process_block", None) is None:
                count_refused_by(consumer, BEAMS_OWN)
            elif block.assigned is not None and not getattr(consumer, "takes_assigned", False):
                count_refused_by(consumer, SCATTERED)
            else:
                count_refused_by(consumer, "another step gets the same elements as batches")

    def hand_on(
        self,
        takers: Sequence[Callable[[_Many], None]],
        many: _Many,
        example: WindowedValue,
        count: int,
    ) -> None:
        """Hand on many elements in a special form."""
        # Counts as the receiver does: one element through the sampler, the rest by number.
        self._counter.update_from(example)
        self._counter.element_counter.update(count - 1)
        for take in takers:
            take(many)
        self._counter.update_collect()

    def single(self, element: WindowedValue) -> None:
        """Hand on one element."""
        self._receiver.receive(element)


def _one_by_one(consumer: operations.Operation, block: Block) -> None:
    """Hand many elements to an operation that knows no blocks."""
    if block.column is not None:
        count_refused_by(consumer, BEAMS_OWN)
    for element in block.elements():
        consumer.process(element)
