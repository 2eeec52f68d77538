"""Side inputs in streaming: kept in the state of each shard that asks for them.

An element of the main input waits until the window of each side input that belongs to
its own window is *ready*: it has fired, or the side input's watermark has passed its end. Where
windows fire at their end alone, the content does not depend on chance.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from apache_beam.transforms.window import BoundedWindow
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.plan.model import SideInput
from sparkbeam.wire.rows import Row
from sparkbeam.worker.blocks import Block, in_blocks, unstamped
from sparkbeam.worker.layouts.group_values import RunCoder
from sparkbeam.worker.side_inputs import SideInputs
from sparkbeam.worker.state.pages import KeyedState
from sparkbeam.worker.state.records import EVENT_TIME
from sparkbeam.worker.streaming.stored_views import View

Waiting = tuple[int, bytes, bytes]
"""A run of elements that wait: their timestamp, their key or firing, and the run."""


class StreamSideInputs(SideInputs):
    """The side inputs of a stage, in one shard.

    Args:
        side_inputs: what they are.
        keyed: the records that hold their content.
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
        """Bytes of all of them, as of the last time that the state was saved."""
        return self._keyed.size[1]

    def add(self, rows: Mapping[int, list[Row]]) -> bool:
        """Takes in what has arrived; tells whether there was anything. See :meth:`.View.add`."""
        arrived = [view.add(rows) for view in self._views.values()]
        return any(arrived)

    def ready(self, window: BoundedWindow, watermarks: Mapping[int, int]) -> bool:
        """Whether an element in a window need not wait.

        Args:
            window: of the main input.
            watermarks: of the ports that feed the side inputs, by tag.
        """
        return all(view.is_ready(window, watermarks) for view in self._views.values())

    def are_forgotten(self, window: BoundedWindow) -> bool:
        """Whether some of what belongs to a window of the main input has been forgotten."""
        return any(view.is_forgotten(window) for view in self._views.values())

    def expire(self, time: int) -> None:
        """Lets windows expire by the watermark of the main input, in microseconds."""
        expired = defaultdict[int, list[tuple[int, bytes]]](list)
        for name in list(self._keyed.due_keys(EVENT_TIME, time)):
            while (due := self._keyed.record(name).pop_due(EVENT_TIME, time)) is not None:
                expired[int(name.split(b":", 1)[0])].append((due[0], name))
        for number, view in enumerate(self._views.values()):
            view.expire(expired[number])

    def _runs(self, transform_id: str, name: str, key: bytes) -> Iterable[bytes]:
        return self._views[transform_id, name].runs(key)


class Gate:
    """Keeps elements of the main input until the side inputs of their windows are ready.

    Args:
        side_inputs: what they wait for.
        runs: encodes the elements.
        waiting: what has waited in the micro-batch before.

    Attributes:
        waiting: what waits now.
        dropped: how many elements came when what they ask for had been forgotten.
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
        """Bytes of what waits."""
        return sum(len(key) + len(run) for _, key, run in self.waiting)

    def let_through(
        self, key: bytes, blocks: Iterable[Block], watermarks: Mapping[int, int]
    ) -> Iterator[Block]:
        """The elements that need not wait; keeps the others, and drops those that are too late.

        Args:
            key: to which the elements belong, or their firing, where that matters.
            blocks: the elements.
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
        """What no longer has to wait, with its keys."""
        waiting, self.waiting = self.waiting, []
        for _, key, run in waiting:
            elements = in_blocks(self._runs.decode(run))
            for block in self.let_through(key, elements, watermarks):
                yield key, block

    def hold(self) -> int | None:
        """The oldest timestamp that waits."""
        return min((stamp for stamp, _, _ in self.waiting), default=None)
