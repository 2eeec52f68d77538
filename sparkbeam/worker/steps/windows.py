"""Operations on blocks: the assignment of windows."""

from collections.abc import Iterable
from typing import Any

from apache_beam.internal import pickler
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.worker import bundle_processor, operations
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

from sparkbeam.plan.model import WINDOW_URN
from sparkbeam.worker.blocks import Emitter, elements, pardo_operation

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

    def process_block(self, template: WindowedValue, values: list[Any]) -> None:
        """Gives all values the windows of their common timestamp."""
        if not self._by_timestamp:
            for value in values:
                self.process(template.with_value(value))
            return
        with self.scoped_process_state:
            windows = self.window_fn.assign(WindowFn.AssignContext(template.timestamp))
            for _ in template.windows:  # In each of them, the values are elements of their own.
                self._emitter.block(WindowedValue(None, template.timestamp, windows), values)

    def process_stamped(
        self, template: WindowedValue, values: list[Any], stamps: list[int]
    ) -> None:
        """Gives values the windows of their timestamps."""
        if not self._by_timestamp:
            for element in elements(template, values, stamps):
                self.process(element)
            return
        with self.scoped_process_state:
            for some, times in self._in_slots(values, stamps):
                time = Timestamp(micros=times[0])
                windows = self.window_fn.assign(WindowFn.AssignContext(time))
                for _ in template.windows:
                    self._emitter.stamped(WindowedValue(None, time, windows), some, times)

    def _in_slots(
        self, values: list[Any], stamps: list[int]
    ) -> Iterable[tuple[list[Any], list[int]]]:
        """Values and their timestamps by what windows they get."""
        if self._slots is None:
            return (([value], [micros]) for value, micros in zip(values, stamps, strict=True))
        offset, length = self._slots
        if (min(stamps) - offset) // length == (max(stamps) - offset) // length:
            return ((values, stamps),)
        slots: dict[int, tuple[list[Any], list[int]]] = {}
        for value, micros in zip(values, stamps, strict=True):
            slot = slots.setdefault((micros - offset) // length, ([], []))
            slot[0].append(value)
            slot[1].append(micros)
        return slots.values()


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


@bundle_processor.BeamTransformFactory.register_urn(
    WINDOW_URN, beam_runner_api_pb2.WindowingStrategy
)
def _create_window(
    factory: bundle_processor.BeamTransformFactory,
    transform_id: str,
    transform: beam_runner_api_pb2.PTransform,
    payload: beam_runner_api_pb2.WindowingStrategy,
    consumers: Any,
) -> operations.DoOperation:
    window_fn = core.Windowing.from_runner_api(payload, factory.context).windowfn
    fn = core.WindowInto.WindowIntoFn(core.Windowing(window_fn))
    data = pickler.dumps((fn, (), {}, [], None))
    return pardo_operation(
        WindowOperation, factory, transform_id, transform, consumers, data, window_fn
    )
