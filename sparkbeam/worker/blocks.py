"""Blocks: many values that share timestamp, windows and pane, processed in one call.

Beam's operations take one element at a time, and for a ``Map`` of a few
instructions that call is nearly all of its cost. Most elements share
their windowing with their neighbours, or all of it but the timestamp, so sparkbeam's
operations hand on lists of values, as far as the next operation understands them:

- Plain functions (``Map``, ``FlatMap``, ``Filter`` and the like) and DoFns run over the
  list, as long as they have one output and ask for no side input.
- The assignment of windows asks once for a block, or for each slot of time in it.
- The map side of a combine adds a key's values to its accumulator at once.
- Sources and sinks read and write runs of values.

Everything else gets the elements one by one, as Beam does it.

A function may put out an object and change it afterwards. Such a result ends its block
(:mod:`sparkbeam.worker.steps.ownership`).
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.worker import bundle_processor, operations
from apache_beam.transforms.window import GlobalWindow, WindowFn
from apache_beam.utils import windowed_value
from apache_beam.utils.timestamp import MIN_TIMESTAMP
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.worker.sizes import size_of

Block = tuple[WindowedValue, list[Any]]
"""Values, and a windowed value that has the windowing of them all."""

Stamped = tuple[WindowedValue, list[Any], list[int]]
"""Values with the same windows and pane, and the timestamp of each in microseconds."""

AnyBlock = Block | Stamped

GLOBAL = WindowedValue(None, MIN_TIMESTAMP, (GlobalWindow(),))
"""The windowing of elements before anybody gives them another."""

SMALLEST_BLOCK = 4
"""Fewer values are handed on one by one."""

BLOCK_SIZE = 2000
"""The most values in a block."""

BLOCK_BYTES = 1 << 20
"""A block has fewer values where they would take more than about this."""

LOOK = 64
"""A block that is being filled is measured each time that it has so many values more."""

_MEASURED = 8


def in_blocks(elements: Iterable[WindowedValue]) -> Iterator[Block]:
    """Joins neighbours with the same windowing."""
    template: WindowedValue | None = None
    values: list[Any] = []
    size = each = 0
    for element in elements:
        if (
            template is not None
            and element.timestamp_micros == template.timestamp_micros
            and element.windows == template.windows
            and element.pane_info is template.pane_info
            and len(values) < BLOCK_SIZE
            and size < BLOCK_BYTES
        ):
            if len(values) % _MEASURED == 0:
                each = size_of(element.value)
            values.append(element.value)
            size += each
            continue
        if template is not None:
            yield template, values
        each = size_of(element.value)
        template, values, size = element, [element.value], each
    if template is not None:
        yield template, values


def is_heavy(block: list[Any]) -> bool:
    """Whether a block that is being filled has as many bytes as it may, by its last value."""
    return len(block) * size_of(block[-1]) >= BLOCK_BYTES


def elements(
    template: WindowedValue, values: list[Any], stamps: list[int]
) -> Iterator[WindowedValue]:
    """Values that have timestamps of their own as elements."""
    create, windows, pane = windowed_value.create, template.windows, template.pane_info
    for value, micros in zip(values, stamps, strict=True):
        yield create(value, micros, windows, pane)


class BlockLimit:
    """How many values make a block; learnt from the blocks so far.

    Attributes:
        values: the limit.
    """

    def __init__(self) -> None:
        self.values = 16

    def learn(self, block: list[Any]) -> None:
        """Takes a block into account."""
        size = max(size_of(block[0]), size_of(block[-1]))
        self.values = max(1, min(2 * self.values, BLOCK_SIZE, BLOCK_BYTES // size))


def joined(blocks: Iterable[AnyBlock]) -> Iterator[AnyBlock]:
    """Joins neighbours that have the same template."""
    limit = BlockLimit()
    template: WindowedValue | None = None
    parts: tuple[list[Any], ...] = ()
    for common, *some in blocks:
        if common is not template or len(some) != len(parts) or len(parts[0]) >= limit.values:
            if template is not None:
                limit.learn(parts[0])
                yield template, *parts
            template, parts = common, tuple([] for _ in some)
        for part, more in zip(parts, some, strict=True):
            part += more
    if template is not None:
        yield template, *parts


def unstamped(blocks: Iterable[AnyBlock]) -> Iterator[Block]:
    """Blocks of values that all share the timestamp of their template."""
    for block in blocks:
        if len(block) == 2:
            yield block
        else:
            for element in elements(*block):
                yield element, [element.value]


class Emitter:
    """The way from one operation to the next ones, for blocks and for single elements."""

    def __init__(self, consumers: list[operations.Operation], receiver: Any) -> None:
        self._receiver = receiver
        self._counter = receiver.opcounter
        takers = [getattr(consumer, "process_block", None) for consumer in consumers]
        self._takers: list[Callable[[WindowedValue, list[Any]], None]] = (
            [taker for taker in takers if taker] if all(takers) else []
        )
        stamped = [getattr(consumer, "process_stamped", None) for consumer in consumers]
        self._stamped: list[Callable[[WindowedValue, list[Any], list[int]], None]] = (
            [taker for taker in stamped if taker] if all(stamped) else []
        )

    def block(self, template: WindowedValue, values: list[Any]) -> None:
        """Hands on values with the windowing of ``template``."""
        if not self._takers or len(values) == 1:
            receive = self._receiver.receive
            for value in values:
                receive(template.with_value(value))
            return
        # Counts as the receiver does: one element through the sampler, the rest by number.
        self._counter.update_from(template.with_value(values[0]))
        self._counter.element_counter.update(len(values) - 1)
        for take in self._takers:
            take(template, values)
        self._counter.update_collect()

    def stamped(self, template: WindowedValue, values: list[Any], stamps: list[int]) -> None:
        """Hands on values with the windows and pane of ``template``."""
        if not self._stamped or len(values) == 1:
            receive = self._receiver.receive
            for element in elements(template, values, stamps):
                receive(element)
            return
        (first,) = elements(template, values[:1], stamps[:1])
        self._counter.update_from(first)
        self._counter.element_counter.update(len(values) - 1)
        for take in self._stamped:
            take(template, values, stamps)
        self._counter.update_collect()

    def single(self, element: WindowedValue) -> None:
        """Hands on one element."""
        self._receiver.receive(element)


def pardo_operation(
    kind: Callable[..., operations.DoOperation],
    factory: bundle_processor.BeamTransformFactory,
    transform_id: str,
    transform: beam_runner_api_pb2.PTransform,
    consumers: Any,
    data: bytes,
    window_fn: WindowFn,
    payload: beam_runner_api_pb2.ParDoPayload | None = None,
) -> operations.DoOperation:
    """Makes an operation that hands on blocks to all that read its one output.

    Args:
        kind: makes the operation itself, which gets ``readers`` and ``window_fn``.
        factory: what Beam's creators of operations get.
        transform_id: of the step.
        transform: the step.
        consumers: the operations that take the output, by its name.
        data: the DoFn with its arguments, pickled.
        window_fn: see the operation.
        payload: of the step, if that is a ParDo.
    """
    operation = bundle_processor._create_pardo_operation(
        factory, transform_id, transform, consumers, data, payload, operation_cls=kind
    )
    (operation.readers,) = consumers.values()
    operation.window_fn = window_fn
    return operation
