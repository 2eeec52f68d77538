"""Side inputs in the workers."""

from typing import Any

from apache_beam.transforms.window import GlobalWindow, IntervalWindow

from sparkbeam.worker.side_inputs import RememberedMapping


def test_a_mapping_is_asked_once_for_each_run_of_a_window() -> None:
    asked = []

    def mapping(window: Any) -> IntervalWindow:
        asked.append(window)
        return IntervalWindow(window.start, window.end + 1)

    remembered = RememberedMapping(mapping, "Ask")
    first, second = IntervalWindow(0, 10), IntervalWindow(10, 20)
    found = [remembered(window) for window in (first, first, second, first, first)]
    assert [window.end for window in found] == [11, 11, 21, 11, 11]
    assert asked == [first, second, first]


def test_no_window_is_taken_for_another() -> None:
    remembered = RememberedMapping(lambda window: window, "Ask")
    assert remembered(IntervalWindow(0, 10)) == IntervalWindow(0, 10)
    assert remembered(GlobalWindow()) == GlobalWindow()
