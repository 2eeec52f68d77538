"""Side inputs in the workers, as DoFns see them."""

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from apache_beam.coders import coder_impl, coders
from apache_beam.internal import pickler
from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.pvalue import SideInputData
from apache_beam.runners.worker import bundle_processor
from apache_beam.transforms.window import BoundedWindow

from sparkbeam.plan.model import SideInput
from sparkbeam.plan.pardo_functions import own_par_do
from sparkbeam.upstream.beam import global_window_mapping
from sparkbeam.wire.failure import within_step
from sparkbeam.worker.row_formats.group_values import RunCoder
from sparkbeam.worker.row_formats.side_input_rows import window_key


class RememberedMapping:
    """Window mapping that is called once for adjacent elements that share their window.

    Args:
        mapping: from a window of the main input to that of the side input.
        label: the label of the step that has the side input.
    """

    def __init__(self, mapping: Callable[[BoundedWindow], BoundedWindow], label: str) -> None:
        self._mapping = mapping
        self._label = label
        self._last: tuple[BoundedWindow, BoundedWindow] | None = None

    def __call__(self, window: BoundedWindow) -> BoundedWindow:
        """Map a window.

        Raises:
            UserCodeFailed: the WindowFn of the side input gives none.
        """
        last = self._last
        if last is None or last[0] is not window:
            with mapping_windows(self._label):
                last = self._last = (window, self._mapping(window))
        return last[1]


def mapping_windows(label: str) -> AbstractContextManager[None]:
    """Attach the step's label, and the requirement on the WindowFn, to errors of window mapping.

    These are the errors that the window of a side input raises.
    """
    return within_step(
        label,
        "the WindowFn of its side input gives no window: it is called with the end of a "
        "window of the main input as the timestamp, and with None as the element",
    )


def remember_windows(
    descriptor: beam_fn_api_pb2.ProcessBundleDescriptor, sides: Iterable[SideInput]
) -> None:
    """Make the mappings of all side inputs remember results, in place."""
    for id in dict.fromkeys(side.transform_id for side in sides):
        transform = descriptor.transforms[id]
        payload = own_par_do(transform.spec.payload)
        for side_input in payload.side_inputs.values():
            mapping = pickler.loads(side_input.window_mapping_fn.payload)
            if mapping is not global_window_mapping:
                named = RememberedMapping(mapping, transform.unique_name)
                side_input.window_mapping_fn.payload = pickler.dumps(named)
        transform.spec.payload = payload.SerializeToString()


class SideInputs(ABC):
    """The side inputs of a stage, by transform id and local name."""

    def values(
        self,
        transform_id: str,
        name: str,
        window: bytes,
        key: bytes,
        coder: coder_impl.CoderImpl,
    ) -> Iterable[Any]:
        """Return the values of a window, or of a key in it; can be iterated again and again."""
        runs = functools.partial(self._runs, transform_id, name, window_key(window, key))
        return _Values(runs, RunCoder(coder))

    @abstractmethod
    def _runs(self, transform_id: str, name: str, key: bytes) -> Iterable[bytes]:
        """Return the runs under a key of :mod:`~sparkbeam.worker.row_formats.side_input_rows`."""


class SideInputMap(bundle_processor.StateBackedSideInputMap):
    """A DoFn's view of a side input in its windows; the keys of a multimap are encodings."""

    def __init__(
        self,
        handler: Any,
        transform_id: str,
        tag: str,
        data: SideInputData,
        coder: coders.WindowedValueCoder,
        **options: Any,
    ) -> None:
        super().__init__(handler, transform_id, tag, data, coder, **options)
        self._data = data
        self._handler, self._place = handler, (transform_id, tag)
        self._coder = coder
        self._seen: dict[BoundedWindow, Any] = {}

    def __getitem__(self, window: BoundedWindow) -> Any:
        if self._data.access_pattern != common_urns.side_inputs.MULTIMAP.urn:
            return super().__getitem__(window)
        target = self._data.window_mapping_fn(window)
        if target not in self._seen:
            place = (*self._place, self._coder.window_coder.encode(target))
            values = functools.partial(self._handler.side_inputs.values, *place)
            found = _MultiMap(values, self._coder.wrapped_value_coder)
            self._seen[target] = self._data.view_fn(found)
        return self._seen[target]

    def reset(self) -> None:
        super().reset()
        self._seen.clear()


class _MultiMap:
    """The values of a window by key.

    Args:
        values: gives those of an encoded key, for a coder of values.
    """

    def __init__(
        self, values: Callable[[bytes, coder_impl.CoderImpl], Iterable[Any]], coder: coders.Coder
    ) -> None:
        self._values = values
        self._encode_key = coder.key_coder().get_impl().encode_nested
        self._value_coder = coder.value_coder().get_impl()
        self._asked: dict[bytes, Iterable[Any]] = {}

    def __getitem__(self, key: Any) -> Iterable[Any]:
        encoded = self._encode_key(key)
        values = self._asked.get(encoded)
        if values is None:
            values = self._asked[encoded] = self._values(encoded, self._value_coder)
        return values


class _Values:
    def __init__(self, runs: Callable[[], Iterable[bytes]], coder: RunCoder) -> None:
        self._runs = runs
        self._coder = coder

    def __iter__(self) -> Iterator[Any]:
        for run in self._runs():
            yield from self._coder.decode(run)
