"""Bundle processors that wait for the next task of their stage."""

import threading
from typing import Any

import pytest
from waiting import until

from sparkbeam.worker.steps import processor as module


class Processor:
    """Stands for a bundle processor."""

    def __init__(self, *, fails: bool = False) -> None:
        self.is_shut_down = False
        self._fails = fails

    def shutdown(self) -> None:
        self.is_shut_down = True
        if self._fails:
            raise ValueError("broken")


def unwanted() -> Any:
    raise AssertionError


@pytest.fixture
def kept() -> Any:
    return module._Kept()


def test_a_processor_is_there_for_the_next_task_of_its_stage(kept: Any) -> None:
    one, other = Processor(), Processor()
    assert kept.take(("run", "s0"), lambda: one) is one
    kept.give_back(("run", "s0"), one)
    assert kept.take(("run", "s1"), lambda: other) is other
    assert kept.take(("run", "s0"), unwanted) is one
    assert kept.take(("run", "s0"), lambda: other) is other


def test_only_some_are_kept(kept: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_KEPT", 2)
    some = [Processor() for _ in range(3)]
    for number, one in enumerate(some):
        kept.give_back(("run", f"s{number}"), one)
    assert [one.is_shut_down for one in some] == [True, False, False]


def test_idle_ones_are_torn_down_and_those_in_use_are_not(
    kept: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "IDLE_SECONDS", 0.2)
    used, failing, idle = Processor(), Processor(fails=True), Processor()
    for number, one in enumerate([used, failing, idle]):
        kept.give_back(("run", f"s{number}"), one)
    assert kept.take(("run", "s0"), unwanted) is used
    until(lambda: idle.is_shut_down)
    assert failing.is_shut_down
    assert not used.is_shut_down
    kept.give_back(("run", "s0"), used)
    until(lambda: used.is_shut_down)


def test_one_thread_watches_them_as_long_as_there_are_any(
    kept: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def watching() -> int:
        return sum(thread.name == "sparkbeam-idle" for thread in threading.enumerate()) - before

    before = 0
    before = watching()
    monkeypatch.setattr(module, "IDLE_SECONDS", 0.5)
    some = [Processor() for _ in range(5)]
    for number, one in enumerate(some):
        kept.give_back(("run", f"s{number}"), one)
    assert watching() <= 1
    until(lambda: all(one.is_shut_down for one in some))
    until(lambda: watching() <= 0)
