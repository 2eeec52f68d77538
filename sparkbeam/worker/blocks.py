"""Blocks: many values that share timestamp, windows and pane, processed in one call.

Beam's operations take one element at a time, and for a ``Map`` of a few
instructions that call is nearly all of its cost. Most elements share
their windowing with their neighbours, or all of it but the timestamp, so sparkbeam's
operations hand on blocks, as far as the next operation understands them:

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
from typing import Any, TypeVar

from apache_beam.runners.worker import operations
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils import windowed_value
from apache_beam.utils.timestamp import MIN_TIMESTAMP
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.upstream.beam import counter_of
from sparkbeam.worker.sizes import size_of

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

_Many = TypeVar("_Many")


class Block:
    """Values with the same windows and pane, and the same timestamp or one for each.

    Args:
        windowing: a windowed value that has the windows and the pane of them all, and, unless
            there are ``stamps``, their timestamp.
        values: the values.
        stamps: the timestamp of each value in microseconds.
    """

    __slots__ = ("_values", "stamps", "windowing")

    def __init__(
        self, windowing: WindowedValue, values: list[Any], stamps: list[int] | None = None
    ) -> None:
        self.windowing = windowing
        self.stamps = stamps
        self._values = values

    def __len__(self) -> int:
        return len(self._values)

    @property
    def values(self) -> list[Any]:
        """The values; nobody else changes the list."""
        return self._values

    def elements(self) -> Iterator[WindowedValue]:
        """The values one by one, with their windowing; each is made when it is asked for."""
        if self.stamps is None:
            return map(self.windowing.with_value, self.values)
        create, windows = windowed_value.create, self.windowing.windows
        pane = self.windowing.pane_info
        stamped = zip(self.values, self.stamps, strict=True)
        return (create(value, micros, windows, pane) for value, micros in stamped)

    def times(self) -> list[int]:
        """The timestamp of each value, in microseconds."""
        if self.stamps is None:
            return [self.windowing.timestamp_micros] * len(self)
        return self.stamps

    def with_values(self, values: list[Any]) -> "Block":
        """Another value in the place of each of these."""
        return Block(self.windowing, values, self.stamps)

    def with_windowing(self, windowing: WindowedValue) -> "Block":
        """The same values and timestamps in other windows, or with another pane."""
        return Block(windowing, self.values, self.stamps)

    def unstamped(self) -> "Iterator[Block]":
        """The same values in blocks that share their timestamp."""
        if self.stamps is None:
            return iter((self,))
        return (Block(element, [element.value]) for element in self.elements())


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
            yield Block(template, values)
        each = size_of(element.value)
        template, values, size = element, [element.value], each
    if template is not None:
        yield Block(template, values)


def is_heavy(values: list[Any]) -> bool:
    """Whether values that are to be a block have as many bytes as it may, by the last of them."""
    return len(values) * size_of(values[-1]) >= BLOCK_BYTES


class BlockLimit:
    """How many values make a block; learnt from the blocks so far.

    Attributes:
        values: the limit.
    """

    def __init__(self) -> None:
        self.values = 16

    def learn(self, values: list[Any]) -> None:
        """Takes the values of a block into account."""
        size = max(size_of(values[0]), size_of(values[-1]))
        self.values = max(1, min(2 * self.values, BLOCK_SIZE, BLOCK_BYTES // size))


def joined(blocks: Iterable[Block]) -> Iterator[Block]:
    """Joins neighbours whose windowing is one object."""
    limit = BlockLimit()
    windowing: WindowedValue | None = None
    values: list[Any] = []
    stamps: list[int] | None = None
    for block in blocks:
        if (
            block.windowing is not windowing
            or (block.stamps is None) != (stamps is None)
            or len(values) >= limit.values
        ):
            if windowing is not None:
                limit.learn(values)
                yield Block(windowing, values, stamps)
            windowing, values, stamps = block.windowing, [], None if block.stamps is None else []
        values += block.values
        if stamps is not None:
            stamps += block.times()
    if windowing is not None:
        yield Block(windowing, values, stamps)


def unstamped(blocks: Iterable[Block]) -> Iterator[Block]:
    """Blocks of values that all share their timestamp."""
    for block in blocks:
        yield from block.unstamped()


class Emitter:
    """The way from one operation to the next ones, for blocks and for single elements."""

    def __init__(self, consumers: list[operations.Operation], receiver: Any) -> None:
        self._receiver = receiver
        self._counter = counter_of(receiver)
        takers = [getattr(consumer, "process_block", None) for consumer in consumers]
        self._takers: list[Callable[[Block], None]] = (
            [taker for taker in takers if taker] if all(takers) else []
        )

    def block(self, block: Block) -> None:
        """Hands on many elements."""
        if not self._takers or len(block) == 1:
            receive = self._receiver.receive
            for element in block.elements():
                receive(element)
            return
        self.hand_on(self._takers, block, next(block.elements()), len(block))

    def hand_on(
        self, takers: list[Callable[[_Many], None]], many: _Many, example: WindowedValue, count: int
    ) -> None:
        """Hands on many elements in a form of their own.

        Args:
            takers: know the form.
            many: the elements.
            example: one of them.
            count: how many there are.
        """
        # Counts as the receiver does: one element through the sampler, the rest by number.
        self._counter.update_from(example)
        self._counter.element_counter.update(count - 1)
        for take in takers:
            take(many)
        self._counter.update_collect()

    def single(self, element: WindowedValue) -> None:
        """Hands on one element."""
        self._receiver.receive(element)
