"""What a shard keeps of a side input."""

from typing import Any

import pytest
from apache_beam.internal import pickler
from apache_beam.transforms.window import GlobalWindow, GlobalWindows

from sparkbeam.plan.model import Firings, SideInput
from sparkbeam.plan.row_formats import RowFormat, SideInputRows
from sparkbeam.wire.firing_rows import UNKNOWN, firing_of, split_key, with_firing
from sparkbeam.worker.row_formats.side_input_rows import window_key
from sparkbeam.worker.state.pages import KeyedState, ShardState
from sparkbeam.worker.state.store import MemoryMap
from sparkbeam.worker.streaming.stored_views import View

TAG = 3
WINDOWS = pickler.dumps((lambda window: GlobalWindow(), GlobalWindows().get_window_coder()))
WINDOW = window_key(GlobalWindows().get_window_coder().encode(GlobalWindow()))


def keyed() -> KeyedState:
    return ShardState(MemoryMap()).stage("s/side")


def view(state: KeyedState, firings: Firings, rows: RowFormat = SideInputRows()) -> View:
    side = SideInput("t", "n", "t", rows, (TAG,), WINDOWS, early=True, firings=firings)
    return View(0, side, state, 0)


def fire(seen: View, *rows: tuple[bytes, bytes, bytes]) -> None:
    """A round of rows: firing, key in the window, run."""
    told = [(with_firing(firing, WINDOW + key), 0, run) for firing, key, run in rows]
    seen.add({TAG: told})


def test_a_row_tells_its_firing_before_its_key() -> None:
    firing = firing_of(b"key", 7)
    assert split_key(with_firing(firing, b"own")) == (firing, b"own")
    assert split_key(with_firing(UNKNOWN, b"")) == (UNKNOWN, b"")
    assert split_key(b"") == (UNKNOWN, b"")


@pytest.mark.parametrize("older_last", [True, False])
def test_an_older_firing_that_comes_later_changes_nothing(older_last: bool) -> None:
    """As behind a Reshuffle, where each goes a way of its own."""
    rows = [(firing_of(b"k", 1), b"", b"new"), (firing_of(b"k", 0), b"", b"old")]
    seen = view(keyed(), Firings.MANY)
    fire(seen, *(rows if older_last else rows[::-1]))
    assert list(seen.runs(WINDOW)) == [b"new"]


def test_what_is_replaced_leaves_no_record() -> None:
    state = keyed()
    seen = view(state, Firings.MANY, SideInputRows(multimap=True))
    fire(seen, *((firing_of(b"k", 0), str(n).encode(), b"old") for n in range(50)))
    fire(seen, (firing_of(b"k", 1), b"1", b"new"))
    state.adjust_size()
    assert list(seen.runs(WINDOW + b"1")) == [b"new"]
    assert list(seen.runs(WINDOW + b"2")) == []
    assert len(list(state.keys())) == 3, "the window, the group and one key"


def test_what_was_added_to_a_key_by_an_earlier_version_goes_with_its_first_firing() -> None:
    state = keyed()
    before: Any = view(state, Firings.NONE, SideInputRows(multimap=True))
    before.add({TAG: [(WINDOW + b"k", 0, b"one"), (WINDOW + b"l", 0, b"two")]})
    after = view(state, Firings.MANY, SideInputRows(multimap=True))
    assert after.is_ready(GlobalWindow(), {TAG: 0})
    assert list(after.runs(WINDOW + b"k")) == [b"one"]
    fire(after, (firing_of(b"k", 4), b"k", b"three"))
    assert list(after.runs(WINDOW + b"k")) == [b"three"]
    assert list(after.runs(WINDOW + b"l")) == [b"two"]


def test_what_was_added_to_a_window_by_an_earlier_version_may_be_of_other_keys() -> None:
    """It comes first, so that in a dictionary later firings win."""
    state = keyed()
    before: Any = view(state, Firings.NONE)
    before.add({TAG: [(WINDOW, 0, b"one"), (WINDOW, 0, b"two")]})
    after = view(state, Firings.MANY)
    fire(after, (firing_of(b"k", 4), b"", b"three"))
    assert list(after.runs(WINDOW)) == [b"one", b"two", b"three"]
