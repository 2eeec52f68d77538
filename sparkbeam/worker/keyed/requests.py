"""State requests of a bundle processor, answered in process: side inputs and user state."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from apache_beam.coders import coder_impl, coders
from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.runners.worker import sdk_worker
from apache_beam.transforms.window import BoundedWindow

from sparkbeam.plan.model import Stage
from sparkbeam.wire.timestamps import MAX_MICROS
from sparkbeam.worker.grouping.shard_clock import ShardClock
from sparkbeam.worker.keyed.state_cells import DONE, forget_user_state, user_cell
from sparkbeam.worker.keyed.timers import EXPIRY
from sparkbeam.worker.keyed.user_state import UserState
from sparkbeam.worker.side_inputs import SideInputs
from sparkbeam.worker.state.ordered_bag import OrderedBag
from sparkbeam.worker.state.records import EVENT_TIME, Record, Records


class StageStateHandler(sdk_worker.CachingStateHandler):
    """The state of a stage.

    Args:
        stage: the stage, for those that make its steps.

    Attributes:
        side_inputs: those of the stage; None for a stage without.
        records: with the user's state; None for a stage without.
        expires: gives the watermark at which the state of a window is forgotten; None if never.
        moment: its times; None in batch, without late elements, where timers fire at the end.
    """

    def __init__(self, state_name: str, stage: Stage | None = None) -> None:
        self.state_name = state_name
        self.stage = stage
        self.operators = {one.label: one for one in stage.operators} if stage else {}
        self.side_inputs: SideInputs | None = None
        self.records: Records | None = None
        self.expires: Callable[[BoundedWindow], int] | None = None
        self.decode_window: Callable[[bytes], BoundedWindow]
        self.moment: ShardClock | None = None
        self._last: tuple[bytes, int] | None = None
        self._of_steps: list[UserState] = []

    def user_state(
        self, transform_id: str, key: coders.Coder, window: coders.Coder, label: str
    ) -> UserState:
        """Return the object that gives a stateful DoFn its states and timers.

        Args:
            label: of the step, for people.
        """
        state = UserState(self, transform_id, key, window, label)
        self._of_steps.append(state)
        return state

    def remember(self, record: Record, window: bytes) -> None:
        """Ensure that the state of a record for a window is forgotten in time."""
        if self.expires is None:
            return
        if self._last is None or self._last[0] != window:
            self._last = (window, self.expires(self.decode_window(window)))
        _, expiry = self._last
        timer_id = EXPIRY + window
        if expiry <= MAX_MICROS and record.timer(timer_id) is None:
            record.set_timer(timer_id, EVENT_TIME, expiry, None, window)

    def forget_announced(self) -> None:
        """Drop the announcements of reads that have not followed."""
        if self.records is not None:
            self.records.overflow.forget_announced()

    def forget(self, record: Record, window: bytes) -> None:
        """Empty all states of a record for a window, and those of the current bundle."""
        for state in self._of_steps:
            state.drop(record.key, window)
        forget_user_state(record, window)

    # What Beam asks for: side inputs, and ranges of ordered lists, which are its own.

    @contextlib.contextmanager
    def process_instruction_id(self, bundle_id: str, cache_tokens: Any) -> Iterator[None]:
        yield

    def blocking_get(
        self, state_key: beam_fn_api_pb2.StateKey, coder: coder_impl.CoderImpl
    ) -> Iterable[Any]:
        match state_key.WhichOneof("type"):
            case "ordered_list_user_state":
                asked = state_key.ordered_list_user_state
                found = self._ordered(asked).range(asked.range.start, asked.range.end)
                return (coder.decode_nested(encoded) for _, encoded in found)
            case "iterable_side_input":
                request, key = state_key.iterable_side_input, b""
            case "multimap_side_input":
                request = state_key.multimap_side_input
                key = request.key
            case other:
                raise NotImplementedError(f"state of kind {other} is not supported")
        assert self.side_inputs is not None
        return self.side_inputs.values(
            request.transform_id, request.side_input_id, request.window, key, coder
        )

    def extend(
        self,
        state_key: beam_fn_api_pb2.StateKey,
        coder: coder_impl.CoderImpl,
        elements: Iterable[Any],
    ) -> Any:
        request = state_key.ordered_list_user_state
        self._ordered(request).add(
            [(stamp, coder.encode_nested((stamp, value))) for stamp, value in elements]
        )
        self.remember(self.record(request.key), request.window)
        return DONE

    def clear(self, state_key: beam_fn_api_pb2.StateKey) -> Any:
        request = state_key.ordered_list_user_state
        self._ordered(request).clear(request.range.start, request.range.end)
        return DONE

    def read_later(
        self, request: beam_fn_api_pb2.StateKey.OrderedListUserState, start: int, end: int
    ) -> None:
        """Announce that a range of an ordered list is going to be read."""
        self._ordered(request).read_later([(start, end)])

    def done(self) -> None:
        """Return at once, as nothing is pending."""

    def _ordered(self, request: beam_fn_api_pb2.StateKey.OrderedListUserState) -> OrderedBag[int]:
        cell = user_cell(self.state_name, request.user_state_id, request.window)
        return self.record(request.key).ordered(cell)

    def record(self, key: bytes) -> Record:
        """Return the record of an encoded key."""
        assert self.records is not None
        return self.records.record(key)
