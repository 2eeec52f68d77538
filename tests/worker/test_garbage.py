"""When a worker looks for cycles of garbage."""

import gc
import time
import weakref

import pyspark.daemon
import pytest

from sparkbeam.worker.garbage import Garbage


class Knot:
    """An object that only the collector frees."""

    def __init__(self) -> None:
        self.self = self


def aged() -> "weakref.ref[Knot]":
    """One that has lasted for some tasks, and is garbage by now."""
    knot = Knot()
    for _ in range(3):
        gc.collect(1)
    return weakref.ref(knot)


def test_what_a_task_has_made_is_freed_after_it() -> None:
    garbage = Garbage()
    garbage.sweep()
    made = weakref.ref(Knot())
    assert made() is not None
    garbage.collect()
    assert made() is None


def test_all_is_looked_through_when_that_has_cost_little_of_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    garbage = Garbage()
    full = gc.collect

    def taking_a_while(generation: int = 2) -> int:
        nonlocal now
        now += 0.1 if generation == 2 else 0.0
        return full(generation)

    monkeypatch.setattr(gc, "collect", taking_a_while)
    garbage.collect()
    old = aged()
    now = 105.0
    garbage.collect()
    assert old() is not None
    now = 105.2
    garbage.collect()
    assert old() is None
    old = aged()
    garbage.sweep()
    assert old() is None


def test_sparks_daemon_has_a_collector_to_replace() -> None:
    assert vars(pyspark.daemon)["gc"] is gc
