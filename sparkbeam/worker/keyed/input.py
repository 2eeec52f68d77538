"""Input of stateful DoFns in streaming: late elements, and elements that wait to be sorted."""

from collections.abc import Iterator
from operator import itemgetter

from apache_beam.coders import coders
from apache_beam.transforms.core import Windowing
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.wire.rows import Row
from sparkbeam.wire.timestamps import MAX_MICROS, MIN_MICROS
from sparkbeam.worker.blocks import Block, in_blocks, unstamped
from sparkbeam.worker.grouping.lateness import Lateness
from sparkbeam.worker.row_formats.keyed_rows import KeyedSource
from sparkbeam.worker.state.pages import KeyedState
from sparkbeam.worker.state.records import EVENT_TIME, Record

SORTED = b"sorted"
"""The cell and the timer of elements that wait to be sorted."""


class KeyedInput:
    """Elements of a stateful stage, key by key; in time order if the DoFn requires it.

    Args:
        sorted_by_time: an element waits until the watermark has passed it.
    """

    def __init__(
        self,
        coder: coders.WindowedValueCoder,
        windowing: Windowing,
        keyed: KeyedState,
        *,
        sorted_by_time: bool,
    ) -> None:
        self._source = KeyedSource(coder)
        self._coder = coder.get_impl()
        self._lateness = Lateness(windowing)
        self._keyed = keyed
        self._sorted = sorted_by_time

    @property
    def dropped(self) -> int:
        """Number of elements that came too late."""
        return self._lateness.dropped

    def prepare(self, rows: list[Row]) -> None:
        """Sort rows into reading order, with the records of the keys."""
        rows.sort(key=itemgetter(0, 1))
        self._keyed.prefetch({key for key, _, _ in rows})

    def elements(self, rows: list[Row], watermark: int) -> Iterator[Block]:
        """Yield the new elements that are not late, if none of them has to wait."""
        return self._lateness.in_time(self._source.blocks(rows), watermark)

    def by_key(self, rows: list[Row], watermark: int) -> Iterator[tuple[bytes, Iterator[Block]]]:
        """Yield the new elements of each key that are not late, as far as they need not wait.

        Those of a key have to be read before the next key.
        """
        for key, blocks in self._source.keys(rows):
            in_time = unstamped(self._lateness.in_time(blocks, watermark))
            yield key, self._ready(key, in_time, watermark) if self._sorted else in_time

    def due_blocks(self, record: Record, watermark: int) -> Iterator[Block]:
        """Yield the elements of a key that have waited for the watermark, in order."""
        if not self._sorted:
            return iter(())
        buffer = record.ordered(SORTED)
        limit = watermark if watermark < MAX_MICROS else watermark + 1
        elements = [self._coder.decode_nested(e) for _, e in buffer.range(MIN_MICROS, limit)]
        if elements:
            buffer.clear(MIN_MICROS, limit)
            self._wait(record)
        return in_blocks(elements)

    def _ready(self, key: bytes, blocks: Iterator[Block], watermark: int) -> Iterator[Block]:
        """Keep the elements that have to wait to be sorted; return the others."""
        waiting: list[WindowedValue] = []
        for block in blocks:
            if block.windowing.timestamp.micros < watermark:
                yield block
            else:
                waiting += block.elements()
        if waiting:
            record = self._keyed.record(key)
            encode = self._coder.encode_nested
            record.ordered(SORTED).add([(e.timestamp.micros, encode(e)) for e in waiting])
            self._wait(record)

    def _wait(self, record: Record) -> None:
        """Set a timer, and with it the watermark hold, for the first waiting element."""
        first = next(iter(record.ordered(SORTED).range(MIN_MICROS, MAX_MICROS + 1)), None)
        if first is None:
            record.clear_timer(SORTED)
        else:
            fire = min(first[0] + 1, MAX_MICROS)
            record.set_timer(SORTED, EVENT_TIME, fire, first[0], None)
