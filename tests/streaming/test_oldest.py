"""The key that holds a watermark, where its page is large."""

import pytest

from sparkbeam.worker.state.pages import ShardState
from sparkbeam.worker.state.records import EVENT_TIME, Hold
from sparkbeam.worker.state.store import MemoryMap
from sparkbeam.worker.streaming.oldest import OldestHold

SECOND = 1_000_000


class Shard:
    """A stage whose only key has a record of a size, over several micro-batches."""

    def __init__(self, size: int) -> None:
        self.entries = MemoryMap()
        self._state = ShardState(self.entries)
        self.record = self._state.stage("stage").record(b"key")
        self.record.set(b"cell", b"x" * size)
        self._next()

    def hold(self, micros: int) -> None:
        """The key holds the watermark by a timer, another one than before."""
        self.record.set_timer(b"timer", EVENT_TIME, micros + 1, micros, None)
        self._next()

    def find(self, clock: int) -> Hold | None:
        """What is found in a micro-batch of its own."""
        found = OldestHold(self._state.stage("stage"), self._state, "oldest").find(clock)
        self._next()
        return found

    def _next(self) -> None:
        self._state.save()
        self._state = ShardState(self.entries)
        self.record = self._state.stage("stage").record(b"key")


@pytest.fixture
def large() -> Shard:
    shard = Shard(1 << 20)
    shard.hold(1000)
    return shard


def hold(micros: int) -> Hold:
    return Hold(micros, b"key", is_timer=True, until=micros + 1, id=b"timer")


class TestLargePages:
    def test_one_is_read_once_as_long_as_the_hold_is_the_same(
        self, large: Shard, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert large.find(0) == hold(1000)
        monkeypatch.setattr("sparkbeam.worker.streaming.oldest._MOST_BYTES", 0)
        assert large.find(60 * SECOND) == hold(1000), "it is remembered"

    def test_another_hold_is_looked_for_after_five_seconds(self, large: Shard) -> None:
        assert large.find(SECOND) == hold(1000)
        large.hold(2000)
        assert large.find(2 * SECOND) is None
        assert large.find(6 * SECOND) == hold(2000)
        large.hold(3000)
        assert large.find(10 * SECOND) is None
        assert large.find(11 * SECOND) == hold(3000)

    def test_a_very_large_one_is_not_read(self) -> None:
        shard = Shard(5 << 20)
        shard.hold(1000)
        assert shard.find(0) is None

    def test_a_small_one_is_read_each_time(self) -> None:
        shard = Shard(100)
        for micros in (1000, 2000, 3000):
            shard.hold(micros)
            assert shard.find(0) == hold(micros)

    def test_nothing_holds(self) -> None:
        assert Shard(100).find(0) is None
        assert Shard(1 << 20).find(0) is None
