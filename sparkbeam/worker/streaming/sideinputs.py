"""Side inputs in streaming: kept in the state of each shard that asks for them.

An element of the main input waits until the window of each side input that belongs to
its own window is *ready*: the side input's watermark has passed its end, so that the content
does not depend on chance. Where the window never ends, it is ready when something has arrived.
"""

from collections.abc import Iterable, Iterator, Mapping

from apache_beam.internal import pickler
from apache_beam.transforms.window import BoundedWindow
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.plan.model import Layout, SideInput
from sparkbeam.wire.failure import within_step
from sparkbeam.wire.rows import Row
from sparkbeam.worker.blocks import Block, in_blocks, unstamped
from sparkbeam.worker.layouts.sides import window_key, window_part
from sparkbeam.worker.layouts.values import RunCoder
from sparkbeam.worker.sideinputs import SideInputs
from sparkbeam.worker.state.pages import KeyedState

Waiting = tuple[int, bytes, bytes]
"""A run of elements that wait: their timestamp, their key, and the run."""

_RUNS = b"runs"
_SEEN = b"seen"


class StreamSideInputs(SideInputs):
    """The side inputs of a stage, in one shard.

    Args:
        side_inputs: what they are.
        keyed: the records that hold their content.
    """

    def __init__(
        self,
        side_inputs: Iterable[SideInput],
        keyed: KeyedState,
    ) -> None:
        self._side_inputs = tuple(side_inputs)
        self._windows = [pickler.loads(side.windows) for side in self._side_inputs]
        self._keyed = keyed
        self._names = {
            (side.transform_id, side.local_name): str(number).encode() + b":"
            for number, side in enumerate(self._side_inputs)
        }

    @property
    def size(self) -> int:
        """Bytes of all of them, as of the last time that the state was saved."""
        return self._keyed.size[1]

    def add(self, rows: Mapping[int, list[Row]]) -> bool:
        """Takes in what has arrived, by tag; tells whether there was anything."""
        arrived = False
        for side in self._side_inputs:
            name = self._names[side.transform_id, side.local_name]
            for tag in side.sources:
                for key, _, run in rows.get(tag, ()):
                    arrived = True
                    self._keyed.record(name + key).bag(_RUNS).append([run])
                    window = window_part(key) if side.layout is Layout.SIDE_MULTIMAP else key
                    self._keyed.record(name + window).set(_SEEN, True)
        return arrived

    def ready(self, window: BoundedWindow, watermarks: Mapping[int, int]) -> bool:
        """Whether an element in a window need not wait.

        Args:
            window: of the main input.
            watermarks: of the ports that feed the side inputs, by tag.
        """
        for side, (mapping, coder) in zip(self._side_inputs, self._windows, strict=True):
            with within_step(side.label):
                target = mapping(window)
            if min(watermarks[tag] for tag in side.sources) > target.max_timestamp().micros:
                continue
            if not side.endless:
                return False
            encoded = coder.encode(target)
            name = self._names[side.transform_id, side.local_name]
            if not self._keyed.record(name + window_key(encoded)).get(_SEEN):
                return False
        return True

    def _runs(self, transform_id: str, name: str, key: bytes) -> Iterable[bytes]:
        return self._keyed.record(self._names[transform_id, name] + key).bag(_RUNS)


class Gate:
    """Keeps elements of the main input until the side inputs of their windows are ready.

    Args:
        side_inputs: what they wait for.
        runs: encodes the elements.
        waiting: what has waited in the micro-batch before.
    """

    def __init__(
        self, side_inputs: StreamSideInputs, runs: RunCoder, waiting: list[Waiting] | None
    ) -> None:
        self._side_inputs = side_inputs
        self._runs = runs
        self.waiting: list[Waiting] = waiting or []

    @property
    def size(self) -> int:
        """Bytes of what waits."""
        return sum(len(key) + len(run) for _, key, run in self.waiting)

    def let_through(
        self, key: bytes, blocks: Iterable[Block], watermarks: Mapping[int, int]
    ) -> Iterator[Block]:
        """The elements that need not wait; keeps the others.

        Args:
            key: to which the elements belong, where that matters.
            blocks: the elements.
            watermarks: see :meth:`StreamSideInputs.ready`.
        """
        known: dict[BoundedWindow, bool] = {}
        for block in unstamped(blocks):
            template = block.windowing
            for window in template.windows:
                if window not in known:
                    known[window] = self._side_inputs.ready(window, watermarks)
                single = WindowedValue(None, template.timestamp, (window,), template.pane_info)
                if known[window]:
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
