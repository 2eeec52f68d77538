"""The states of stateful DoFns, over the records of keys.

A value, or an accumulator, is one value of the record. Bags and sets are Beam's own over a bag of
the record; maps are in ``maps.py``. The changes of a bundle are written when it ends.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

from apache_beam.coders import coder_impl, coders
from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.runners.worker import bundle_processor
from apache_beam.transforms import userstate
from apache_beam.transforms.core import CombineFn
from apache_beam.transforms.window import BoundedWindow
from apache_beam.utils.timestamp import Timestamp

from sparkbeam.plan.time_params import EventTimeSpec
from sparkbeam.state import MapStateSpec, MultimapStateSpec, SortedMultimapStateSpec
from sparkbeam.wire.failure import StepFailed
from sparkbeam.wire.timestamps import MAX_MICROS, MIN_MICROS
from sparkbeam.worker.grouping.shard_clock import ShardClock
from sparkbeam.worker.keyed.maps import LazyRange, MapState, MultimapState, SortedMultimapState
from sparkbeam.worker.keyed.state_cells import Cell, user_cell
from sparkbeam.worker.row_formats.key_table import immutable_size

_NOTHING = object()
_TIMES = bundle_processor.SynchronousOrderedListRuntimeState


class UserState(bundle_processor.FnApiUserStateContext):
    """States of a stateful DoFn; its timers are Beam's.

    Args:
        handler: the :class:`.StageStateHandler`, which has the records.
    """

    def __init__(
        self,
        handler: Any,
        transform_id: str,
        key_coder: coders.Coder,
        window_coder: coders.Coder,
        label: str,
    ) -> None:
        super().__init__(handler, transform_id, key_coder, window_coder)
        self._handler = handler
        self._step = transform_id
        self._encode_key = key_coder.get_impl().encode_nested
        self._encode_window = window_coder.get_impl().encode
        self._label = label
        self._key: Any = _NOTHING
        self._encoded = b""
        self._windows: dict[BoundedWindow, _Window] = {}
        self._last: _Window | None = None
        self._combine_fns: dict[str, CombineFn] = {}
        self._names: set[str] = set()

    def get_state(self, spec: userstate.StateSpec, key: Any, window: BoundedWindow) -> Any:
        if key is not self._key:
            self._key, self._encoded = key, self._encode_key(key)
        known = self._last
        if known is None or known.window is not window:
            known = self._windows.get(window)
            if known is None:
                known = self._windows[window] = _Window(window, self._encode_window(window))
            self._last = known
        at = (self._encoded, spec.name)
        state = known.states.get(at)
        if state is None:
            self._names.add(spec.name)
            state = known.states[at] = self._new(spec, known)
        return state

    def _new(self, spec: userstate.StateSpec, window: "_Window") -> Any:
        if isinstance(spec, userstate.OrderedListStateSpec):
            return self._ordered_list(spec, window.encoded)
        name = window.cells.get(spec.name)
        if name is None:
            name = user_cell(self._handler.state_name, spec.name, window.encoded)
            window.cells[spec.name] = name
        record = self._handler.record(self._encoded)
        # Beam's states take it for what answers requests, and for the key of these.
        cell: Any = Cell(record, name, window.encoded, self._handler.remember)
        match spec:
            case userstate.ReadModifyWriteStateSpec():
                return ValueState(cell, spec.coder.get_impl())
            case userstate.CombiningValueStateSpec():
                return CombiningState(cell, spec.coder.get_impl(), self._combine_fn(spec))
            case userstate.BagStateSpec():
                return BagState(cell, spec.coder)
            case userstate.SetStateSpec():
                return SetState(cell, spec.coder)
            case MapStateSpec():
                return MapState(spec, cell)
            case MultimapStateSpec():
                return MultimapState(spec, cell)
            case SortedMultimapStateSpec():
                return SortedMultimapState(spec, cell)
            case EventTimeSpec():
                return EventTime(cell, self._handler.moment)
            case _:
                raise NotImplementedError(spec)

    def _ordered_list(self, spec: userstate.OrderedListStateSpec, window: bytes) -> Any:
        """Return Beam's own state, which requests ranges."""
        asked = beam_fn_api_pb2.StateKey.OrderedListUserState(
            transform_id=self._step, user_state_id=spec.name, window=window, key=self._encoded
        )
        state_key = beam_fn_api_pb2.StateKey(ordered_list_user_state=asked)
        announce = partial(self._handler.read_later, asked)
        return OrderedListState(announce, self._handler, state_key, spec.coder)

    def _combine_fn(self, spec: userstate.CombiningValueStateSpec) -> CombineFn:
        fn = self._combine_fns.get(spec.name)
        if fn is None:
            fn = self._combine_fns[spec.name] = copy.deepcopy(spec.combine_fn)
            fn.setup()
        return fn

    def drop(self, key: bytes, window: bytes) -> None:
        """Release the states of a key and window that the bundle requested, unwritten.

        Args:
            key: encoded.
            window: encoded.
        """
        for known in self._windows.values():
            if known.encoded == window:
                for name in self._names:
                    known.states.pop((key, name), None)

    def commit(self) -> None:
        self._handler.forget_announced()
        for window in self._windows.values():
            for (_, name), state in window.states.items():
                try:
                    state.commit()
                except Exception as error:
                    problem = f"the coder of its state '{name}' cannot encode its content"
                    raise StepFailed(self._label, problem) from error
        self._forget()

    def reset(self) -> None:
        for fn in self._combine_fns.values():
            fn.teardown()
        self._combine_fns = {}
        self._forget()

    def _forget(self) -> None:
        """Release the records, which stay in memory as long as a state has them."""
        self._key, self._last, self._windows = _NOTHING, None, {}


@dataclass
class _Window:
    """The states of a window that a bundle has requested.

    Attributes:
        cells: the names of cells, by the name of the state.
        states: by encoded key and name.
    """

    window: BoundedWindow
    encoded: bytes
    cells: dict[str, bytes] = field(default_factory=dict)
    states: dict[tuple[bytes, str], Any] = field(default_factory=dict)


class _InBag:
    """A state class of Beam over a bag of the record."""

    def __init__(self, cell: Any, coder: coders.Coder) -> None:
        super().__init__(cell, cell, coder)  # type: ignore[call-arg]
        self._cell = cell

    def read_later(self) -> Self:
        """Announce a read, see :class:`.Later`."""
        self._cell.read_later()
        return self


class BagState(_InBag, bundle_processor.SynchronousBagRuntimeState):
    """The state of a ``BagStateSpec``."""


class SetState(_InBag, bundle_processor.SynchronousSetRuntimeState):
    """The state of a ``SetStateSpec``."""


class OrderedListState(bundle_processor.SynchronousOrderedListRuntimeState):
    """The state of an ``OrderedListStateSpec``."""

    def __init__(self, announce: Callable[[int, int], None], *request: Any) -> None:
        super().__init__(*request)
        self._announce = announce

    def read_later(
        self,
        min_timestamp: Timestamp = _TIMES.TIMESTAMP_RANGE_MIN,
        limit_timestamp: Timestamp = _TIMES.TIMESTAMP_RANGE_MAX,
    ) -> LazyRange:
        """Announce a ``read_range``, see :class:`.Later`."""
        self._announce(min_timestamp.micros, limit_timestamp.micros)
        return LazyRange(
            lambda: self.read_range(min_timestamp, limit_timestamp), lambda *pair: pair
        )


class CellState(userstate.RuntimeState):
    """A state that is one value of the record; it is written at the end of a bundle."""

    def __init__(self, cell: Cell, coder: coder_impl.CoderImpl) -> None:
        self._cell = cell
        self._coder = coder
        self._changed = False
        self._stored = cell.get()
        self._value: Any = _NOTHING

    def read_later(self) -> Self:
        """Announce a read that needs no access: a value is in the record."""
        return self

    def clear(self) -> None:
        """Remove the content."""
        self._stored, self._value = None, _NOTHING
        self._changed = True

    def commit(self) -> None:
        """Write the value, if it has changed."""
        if self._changed:
            value = self._value
            self._cell.set(None if value is _NOTHING else self._coder.encode(value))
            self._changed = False


class ValueState(CellState, userstate.ReadModifyWriteRuntimeState):
    """The state of a ``ReadModifyWriteStateSpec``."""

    def read(self) -> Any:
        """Return the value; one that was not written in this bundle is a new object each time."""
        if self._value is not _NOTHING:
            return self._value
        if self._stored is None:
            return None
        value = self._coder.decode(self._stored)
        if immutable_size(value):
            self._value = value
        return value

    def write(self, value: Any) -> None:
        """Replace the value."""
        self._value = value
        self._changed = True


class CombiningState(CellState, userstate.CombiningValueRuntimeState):
    """The state of a ``CombiningValueStateSpec``."""

    def __init__(self, cell: Cell, coder: coder_impl.CoderImpl, fn: CombineFn) -> None:
        super().__init__(cell, coder)
        self._fn = fn

    def read(self) -> Any:
        """Return the output of the accumulator."""
        accumulator = self._accumulator()
        result = self._fn.extract_output(accumulator)
        if not immutable_size(result) and self._value is not _NOTHING:
            # The result may be the accumulator, or a part of it, which later inputs change.
            self._value = self._coder.decode(self._coder.encode(accumulator))
        return result

    def add(self, value: Any) -> None:
        """Add an input to the accumulator."""
        self._value = self._fn.add_input(self._accumulator(), value)
        self._changed = True

    def _accumulator(self) -> Any:
        if self._value is _NOTHING and self._stored is not None:
            self._value = self._coder.decode(self._stored)
        return self._fn.create_accumulator() if self._value is _NOTHING else self._value


class EventTime(userstate.RuntimeState):
    """The state of an ``EventTimeSpec``: the watermark, and a hold on that of later stages.

    All times are in microseconds.

    Args:
        moment: the times of the stage; None in batch.
    """

    def __init__(self, cell: Cell, moment: ShardClock | None) -> None:
        self._cell = cell
        self._moment = moment

    @property
    def arrived(self) -> int:
        """Time before which elements are late."""
        return MIN_MICROS if self._moment is None else self._moment.input_watermark

    @property
    def final(self) -> int:
        """Time before which only late elements can come; for use in a timer."""
        return MAX_MICROS if self._moment is None else self._moment.input_watermark

    def hold(self, micros: int | None) -> None:
        """Keep the watermark behind this stage from passing a time; None lets it go."""
        self._cell.hold(micros)

    def commit(self) -> None:
        """Do nothing, as the hold is in the record."""
