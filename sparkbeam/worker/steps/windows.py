"""Operations on blocks: the assignment of windows."""

from collections.abc import Iterator
from typing import Any

from apache_beam.internal import pickler
from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.worker import operations
from apache_beam.transforms import core
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindows,
    Sessions,
    SlidingWindows,
    WindowFn,
)
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.worker.blocks import Block, Emitter
from sparkbeam.worker.steps.step import Step, Way

_ALL_TIME = 1 << 70
_BY_TIMESTAMP = (GlobalWindows, FixedWindows, SlidingWindows, Sessions)


class WindowOperation(operations.DoOperation):
    """Assigns windows; once for a block where they depend on the timestamp alone.

    Attributes:
        window_fn: gives the windows.
        readers: the operations that take the results.
    """

    window_fn: WindowFn
    readers: list[operations.Operation]

    def setup(self, data_sampler: Any = None) -> None:
        super().setup(data_sampler)
        self._emitter = Emitter(self.readers, self.receivers[0])
        self._by_timestamp = type(self.window_fn) in _BY_TIMESTAMP
        self._slots = _slots(self.window_fn)

    def process_block(self, block: Block) -> None:
        """Gives values the windows of their timestamps."""
        if not self._by_timestamp:
            for element in block.elements():
                self.process(element)
            return
        with self.scoped_process_state:
            for part in self._in_slots(block):
                # In each window that they are in, the values are elements of their own.
                for _ in block.windowing.windows:
                    self._emitter.block(part)

    def _in_slots(self, block: Block) -> Iterator[Block]:
        """The values by what windows they get, with these windows."""
        stamps = block.stamps
        if stamps is None:
            yield block.with_windowing(self._windowing(block.windowing.timestamp))
            return
        if self._slots is None:
            for single in block.unstamped():
                yield single.with_windowing(self._windowing(single.windowing.timestamp))
            return
        offset, length = self._slots
        slots: dict[int, tuple[list[Any], list[int]]] = {}
        if (min(stamps) - offset) // length == (max(stamps) - offset) // length:
            slots[0] = block.values, stamps
        else:
            for value, micros in zip(block.values, stamps, strict=True):
                slot = slots.setdefault((micros - offset) // length, ([], []))
                slot[0].append(value)
                slot[1].append(micros)
        for values, times in slots.values():
            yield Block(self._windowing(Timestamp(micros=times[0])), values, times)

    def _windowing(self, time: Timestamp) -> WindowedValue:
        windows = self.window_fn.assign(WindowFn.AssignContext(time))
        return WindowedValue(None, time, tuple(windows))


def _slots(window_fn: WindowFn) -> tuple[int, int] | None:
    """Offset and length of the spans of time in which all elements get the same windows.

    None where there are none. Both are in microseconds.
    """
    match window_fn:
        case GlobalWindows():
            return 0, _ALL_TIME
        case FixedWindows():
            return window_fn.offset.micros, window_fn.size.micros
        case SlidingWindows() if window_fn.size.micros % window_fn.period.micros == 0:
            return window_fn.offset.micros, window_fn.period.micros
    return None


def _window_fn(step: Step) -> WindowFn | None:
    if step.urn != common_urns.primitives.ASSIGN_WINDOWS.urn:
        return None
    payload = step.payload(beam_runner_api_pb2.WindowingStrategy)
    return core.Windowing.from_runner_api(payload, step.factory.context).windowfn


def _make(step: Step, window_fn: WindowFn) -> operations.DoOperation:
    fn = core.WindowInto.WindowIntoFn(core.Windowing(window_fn))
    data = pickler.dumps((fn, (), {}, [], None))
    return step.block_operation(WindowOperation, data, window_fn)


WINDOWS = Way("windows of blocks", _window_fn, _make)
