"""State for a bundle: user state of the keys at hand, and side inputs.

In batch all elements of a key meet in one bundle, so user state lives in
memory and ends with the bundle.
"""

import contextlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from apache_beam.coders import coder_impl, coders
from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.runners.worker import sdk_worker
from apache_beam.transforms.userstate import StateSpec, UserStateContext
from apache_beam.transforms.window import BoundedWindow
from sortedcontainers import SortedList

from sparkbeam.upstream import beam
from sparkbeam.wire.failure import StepFailed
from sparkbeam.worker.sideinputs import SideInputs


class StageState(sdk_worker.CachingStateHandler):
    """Answers the state requests of a bundle processor in process.

    The subclasses answer for user state.

    Attributes:
        side_inputs: those of the stage; None for a stage without.
    """

    side_inputs: SideInputs | None = None

    @contextlib.contextmanager
    def process_instruction_id(self, bundle_id: str, cache_tokens: Any) -> Iterator[None]:
        yield

    def blocking_get(
        self, state_key: beam_fn_api_pb2.StateKey, coder: coder_impl.CoderImpl
    ) -> Iterable[Any]:
        match state_key.WhichOneof("type"):
            case "iterable_side_input":
                request, key = state_key.iterable_side_input, b""
            case "multimap_side_input":
                request = state_key.multimap_side_input
                key = request.key
            case other:
                raise NotImplementedError(f"state of kind {other}")
        assert self.side_inputs is not None
        return self.side_inputs.values(
            request.transform_id, request.side_input_id, request.window, key, coder
        )

    def user_state(
        self, transform_id: str, key: coders.Coder, window: coders.Coder, label: str
    ) -> UserStateContext:
        """What gives a stateful DoFn its states and timers.

        Args:
            transform_id: of the step.
            key: the coder of the keys.
            window: the coder of the windows.
            label: of the step, for people.
        """
        raise NotImplementedError

    def done(self) -> None:
        """Nothing is pending."""


class BundleState(StageState):
    """The state of a stage in batch."""

    def __init__(self) -> None:
        self._bags: dict[bytes, list[bytes]] = defaultdict(list)
        self._ordered: dict[bytes, SortedList] = {}

    def user_state(
        self, transform_id: str, key: coders.Coder, window: coders.Coder, label: str
    ) -> UserStateContext:
        return _StatesByKey(self, transform_id, key, window, label)

    def forget_user_state(self) -> None:
        """Drops the state of all keys, at the end of a bundle."""
        self._bags.clear()
        self._ordered.clear()

    def blocking_get(
        self, state_key: beam_fn_api_pb2.StateKey, coder: coder_impl.CoderImpl
    ) -> Iterable[Any]:
        match state_key.WhichOneof("type"):
            case "bag_user_state":
                stored = self._bags.get(state_key.SerializeToString(), ())
                return [coder.decode_nested(element) for element in stored]
            case "ordered_list_user_state":
                return self._ordered_range(state_key, coder)
            case _:
                return super().blocking_get(state_key, coder)

    def extend(
        self,
        state_key: beam_fn_api_pb2.StateKey,
        coder: coder_impl.CoderImpl,
        elements: Iterable[Any],
    ) -> Any:
        if state_key.WhichOneof("type") == "ordered_list_user_state":
            stored = self._ordered.setdefault(_list_id(state_key), SortedList(key=_sort_key))
            stored.update((key, coder.encode_nested((key, value))) for key, value in elements)
        else:
            self._bags[state_key.SerializeToString()].extend(
                coder.encode_nested(element) for element in elements
            )
        return DONE

    def clear(self, state_key: beam_fn_api_pb2.StateKey) -> Any:
        if state_key.WhichOneof("type") == "ordered_list_user_state":
            stored = self._ordered.get(_list_id(state_key))
            if stored is not None:
                wanted = state_key.ordered_list_user_state.range
                start = stored.bisect_key_left(wanted.start)
                del stored[start : stored.bisect_key_left(wanted.end)]
        else:
            self._bags.pop(state_key.SerializeToString(), None)
        return DONE

    def _ordered_range(
        self, state_key: beam_fn_api_pb2.StateKey, coder: coder_impl.CoderImpl
    ) -> Iterable[Any]:
        stored = self._ordered.get(_list_id(state_key))
        if stored is None:
            return []
        wanted = state_key.ordered_list_user_state.range
        found = stored.irange_key(wanted.start, wanted.end, inclusive=(True, False))
        return [coder.decode_nested(encoded) for _, encoded in found]


class _StatesByKey(beam.UserStateContext):
    """Gives a stateful DoFn Beam's own states; one for each key, which is its encoding."""

    def __init__(
        self,
        handler: BundleState,
        transform_id: str,
        key: coders.Coder,
        window: coders.Coder,
        label: str,
    ) -> None:
        super().__init__(handler, transform_id, key, window)
        self._encode_key = key.get_impl().encode_nested
        self._label = label
        self._key: Any = _NO_KEY
        self._encoded = b""

    def get_state(self, spec: StateSpec, key: Any, window: BoundedWindow) -> Any:
        if key is not self._key:
            self._key, self._encoded = key, self._encode_key(key)
        at = (spec.name, self._encoded, window)
        state = self.states.get(at)
        if state is None:
            state = self.states[at] = self.create_state(spec, key, window)
        return state

    def commit(self) -> None:
        commit_each(self._label, ((at[0], state) for at, state in self.states.items()))

    def reset(self) -> None:
        super().reset()
        self._key = _NO_KEY


_NO_KEY = object()


def commit_each(label: str, states: Iterable[tuple[str, Any]]) -> None:
    """Writes the states of a step, each with its name, at the end of a bundle.

    Raises:
        StepFailed: a state cannot be encoded.
    """
    for name, state in states:
        try:
            state.commit()
        except Exception as error:
            problem = f"the coder of its state '{name}' cannot encode what is in it"
            raise StepFailed(label, problem) from error


class Done:
    """The future of a request that is already answered."""

    def get(self) -> None:
        return None


DONE = Done()


def _sort_key(element: tuple[int, bytes]) -> int:
    return element[0]


def _list_id(state_key: beam_fn_api_pb2.StateKey) -> bytes:
    """The key of an ordered list, without the range that a request asks for."""
    plain = beam_fn_api_pb2.StateKey()
    plain.CopyFrom(state_key)
    plain.ordered_list_user_state.ClearField("range")
    return plain.SerializeToString()
