"""The bundles of a stage in one Spark task, in batch and in streaming."""

import itertools
import warnings
from collections.abc import Iterable, Iterator
from typing import TypeVar

from sparkbeam.wire.rows import RowWriter
from sparkbeam.worker.blocks import Block, in_blocks
from sparkbeam.worker.finalizers import Callback
from sparkbeam.worker.steps.processor import Feed, Message, Residual, StageProcessor
from sparkbeam.worker.tally import Tally

_KEYS_PER_BUNDLE = 1000

_T = TypeVar("_T")


class Bundles:
    """Sequential bundles, and their reports.

    Args:
        processor: the processor of their stage.

    Attributes:
        callbacks: the callbacks of bundle finalizers, for the caller to call.
    """

    def __init__(
        self,
        processor: StageProcessor,
        rows: RowWriter,
        partition: int,
        tally: Tally,
    ) -> None:
        self._tally = tally
        self._warnings: list[warnings.WarningMessage] = []
        self.processor = processor
        self.count = 0
        self.callbacks: list[Callback] = []
        for sink in self.processor.sinks:
            sink.open(rows, partition)

    def process(self, elements: Iterator[Block], *, resumed: bool = False) -> list[Residual]:
        """Run a bundle.

        Returns:
            The residuals of splittable DoFns.
        """
        followed = self._tally.followed(self.processor, elements, resumed=resumed)

        def feed(go_on: Message) -> Iterator[Message]:
            self.processor.source.elements = followed
            yield go_on

        return self._run(feed)

    def process_keyed(
        self, keys: Iterable[tuple[bytes, Iterator[Block]]], *, fire: bool
    ) -> list[Residual]:
        """Run a bundle of a stateful stage: for each key its elements, then its timers.

        Args:
            keys: encoded keys, each with its input of the bundle.
            fire: True if its due timers fire.

        Returns:
            The residuals of splittable DoFns.
        """
        source, timers, state = self.processor.source, self.processor.timers, self.processor.state
        assert state.records is not None
        record = state.records.record
        followed = self._tally.followed(self.processor, keys)

        def feed(go_on: Message) -> Iterator[Message]:
            for key, elements in followed:
                timers.record = record(key)
                source.elements = elements
                yield go_on
                timers.collect()
                if fire:
                    yield from timers.fire()

        return self._run(feed)

    def resume(self, deferred: Iterable[bytes]) -> list[Residual]:
        """Run a bundle that continues with deferred elements; return what it defers."""
        decode = self.processor.source.windowed_coder_impl.decode_all
        elements = in_blocks(element for encoded in deferred for element in decode(encoded))
        return self.process(elements, resumed=True)

    def _run(self, feed: Feed) -> list[Residual]:
        """Run a bundle; see :meth:`StageProcessor.process`."""
        with warnings.catch_warnings(record=True) as caught:
            residuals = self.processor.process(feed)
        self.count += 1
        self._warnings += caught
        self._tally.add(self.processor.monitoring_infos())
        self.callbacks += self.processor.take_finalizers()
        return residuals

    def report(self, kept: tuple[tuple[int, str], ...] = ()) -> bytes:
        """Return the report of all steps at the end of the task.

        Args:
            kept: the files that it has written; see :class:`~sparkbeam.wire.reports.TaskReport`.
        """
        return self._tally.finished(self._warnings, kept)


def delay_of(residual: Residual) -> int:
    """Return the delay of a deferred residual in microseconds."""
    delay = residual.requested_time_delay
    return delay.seconds * 1_000_000 + delay.nanos // 1000


def portions(keys: Iterator[_T]) -> Iterator[Iterator[_T]]:
    """Yield keys for one bundle after the other; each has to be read before the next."""
    for first in keys:
        yield itertools.chain([first], itertools.islice(keys, _KEYS_PER_BUNDLE - 1))
