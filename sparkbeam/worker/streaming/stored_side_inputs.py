"""Side inputs in streaming, stored in the state of each shard that reads them.

An element of the main input waits until the window of each side input that belongs to its own
window is *ready*: it has fired, or the side input's watermark has passed its end. If windows fire
only at their end, the content does not depend on chance.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from apache_beam.transforms.window import BoundedWindow
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.plan.model import SideInput
from sparkbeam.wire.rows import Row
from sparkbeam.worker.blocks import Block, in_blocks, unstamped
from sparkbeam.worker.row_formats.group_values import RunCoder
from sparkbeam.worker.side_inputs import SideInputs
from sparkbeam.worker.state.pages import KeyedState
from sparkbeam.worker.state.records import EVENT_TIME
from sparkbeam.worker.streaming.stored_views import View

Waiting = tuple[int, bytes, bytes]
"""A run of waiting elements: their timestamp, their key or firing, and the run."""


class StreamSideInputs(SideInputs):
    """The side inputs of a stage, in one shard.

    Args:
        lateness: the allowed lateness of the main input, in microseconds.
    """

    def __init__(self, side_inputs: Iterable[SideInput], keyed: KeyedState, lateness: int) -> None:
        self._keyed = keyed
        self._views = {
            (side.transform_id, side.local_name): View(number, side, keyed, lateness)
            for number, side in enumerate(side_inputs)
        }

    @property
    def size(self) -> int:
        """Size of all side inputs in bytes, as of the last save of the state."""
        return self._keyed.size[1]

    def add(self, rows: Mapping[int, list[Row]]) -> bool:
        """Add arrivals; return whether there were any. See :meth:`.View.add`."""
        arrived = [view.add(rows) for view in self._views.values()]
        return any(arrived)

    def ready(self, window: BoundedWindow, watermarks: Mapping[int, int]) -> bool:
        """Return whether an element in a window can proceed.

        Args:
            watermarks: the watermarks of the ports that feed the side inputs, by tag.
        """
        return all(view.is_ready(window, watermarks) for view in self._views.values())

    def are_forgotten(self, window: BoundedWindow) -> bool:
        """Return whether side-input content for a window of the main input has been forgotten."""
        return any(view.is_forgotten(window) for view in self._views.values())

    def expire(self, time: int) -> None:
        """Expire windows by the watermark of the main input, in microseconds."""
        expired = defaultdict[int, list[tuple[int, bytes]]](list)
        for name in list(self._keyed.due_keys(EVENT_TIME, time)):
            while (due := self._keyed.record(name).pop_due(EVENT_TIME, time)) is not None:
                expired[int(name.split(b":", 1)[0])].append((due[0], name))
        for number, view in enumerate(self._views.values()):
            view.expire(expired[number])

    def _runs(self, transform_id: str, name: str, key: bytes) -> Iterable[bytes]:
        return self._views[transform_id, name].runs(key)


class Gate:
    """Gate that holds main-input elements until the side inputs of their windows are ready.

    Args:
        waiting: the elements that waited in the previous micro-batch.

    Attributes:
        dropped: the number of elements whose side inputs had been forgotten.
    """

    def __init__(
        self, side_inputs: StreamSideInputs, runs: RunCoder, waiting: list[Waiting] | None
    ) -> None:
        self._side_inputs = side_inputs
        self._runs = runs
        self.waiting: list[Waiting] = waiting or []
        self.dropped = 0

    @property
    def size(self) -> int:
        """Size of the waiting elements in bytes."""
        return sum(len(key) + len(run) for _, key, run in self.waiting)

    def let_through(
        self, key: bytes, blocks: Iterable[Block], watermarks: Mapping[int, int]
    ) -> Iterator[Block]:
        """Yield the elements that need not wait; keep others, and drop those too late.

        Args:
            key: the key of the elements, or their firing, if it matters.
            watermarks: see :meth:`StreamSideInputs.ready`.
        """
        known: dict[BoundedWindow, bool | None] = {}
        for block in unstamped(blocks):
            template = block.windowing
            for window in template.windows:
                if window not in known:
                    is_over = self._side_inputs.are_forgotten(window)
                    known[window] = None if is_over else self._side_inputs.ready(window, watermarks)
                single = WindowedValue(None, template.timestamp, (window,), template.pane_info)
                if known[window] is None:
                    self.dropped += len(block)
                elif known[window]:
                    yield block.with_windowing(single)
                else:
                    run = self._runs.encode([single.with_value(value) for value in block.values])
                    self.waiting.append((template.timestamp.micros, key, run))

    def release(self, watermarks: Mapping[int, int]) -> Iterator[tuple[bytes, Block]]:
        """Yield the elements that no longer have to wait, with their keys."""
        waiting, self.waiting = self.waiting, []
        for _, key, run in waiting:
            elements = in_blocks(self._runs.decode(run))
            for block in self.let_through(key, elements, watermarks):
                yield key, block

    def hold(self) -> int | None:
        """Return the oldest waiting timestamp."""
        return min((stamp for stamp, _, _ in self.waiting), default=None)
