"""A partition of a hub with nothing left does not hold the watermark back; one with a backlog does.

Times are seconds. A micro-batch's tick tells what was read up to the one before.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hub_run import NONE, HubRun

from pyspark_eventhubs.testing import EventHubsServer
from sparkbeam.upstream.spark import freezes_available_now

HOUR = 3600


Run = Callable[..., HubRun]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: EventHubsServer) -> Run:
    """Makes a run that reads the hub with arguments."""
    return partial(HubRun, tmp_path, monkeypatch, server)


def test_a_partition_without_events_holds_nothing_back(run: Run) -> None:
    hub = run()
    hub.send(0, 1, 5, 15, 25)
    hub.go(3)
    assert hub.watermark() == 25
    assert hub.counts() == {0: 2, 10: 1}


def test_a_backlog_an_hour_behind_holds_it_back_until_it_is_read(run: Run) -> None:
    hub = run(max_events_per_trigger=20)
    hub.send(0, *range(HOUR, HOUR + 100))
    hub.send(1, *range(0, 100, 2))
    hub.go(5)
    assert 0 <= hub.watermark() < 100
    hub.go(8)
    assert hub.watermark() == HOUR + 99
    counts = hub.counts()
    assert sum(count for start, count in counts.items() if start < HOUR) == 50, "none was late"
    assert sum(counts.values()) == 50 + 90, "and the last window is open"


def test_one_that_goes_silent_is_passed_by_at_once(run: Run) -> None:
    hub = run()
    hub.send(0, 10)
    hub.send(1, 5)
    hub.go(2)
    assert hub.watermark() == 5
    found = []
    for second in (20, 30, 40, 50):
        hub.send(0, second)
        hub.go(1)
        found.append(hub.watermark())
    assert found == [10, 10, 20, 30], "in the micro-batch after the next"


def test_one_that_wakes_up_counts_again_and_what_is_older_is_late(run: Run) -> None:
    hub = run(max_events_per_trigger=4)
    hub.send(0, 1, 11, 21, 31)
    hub.go(3)
    assert hub.watermark() == 31
    hub.send(1, 3, *range(32, 50))
    hub.send(0, *range(HOUR, HOUR + 40))
    hub.go(3)
    assert 0 <= hub.watermark() < 50, "it has a backlog"
    hub.go(14)
    counts = hub.counts()
    assert counts[0] == 1, "the event of second 3 came too late"
    assert counts[30] + counts[40] == 1 + 18, "and none that came in time"
    assert sum(counts.values()) == 4 + 18 + 40 - 10


@pytest.mark.part(3)
@pytest.mark.parametrize("end", ["unlogged", "operator 0", "committed"])
def test_watermarks_are_right_whenever_a_run_ends(run: Run, end: str) -> None:
    hub = run(max_events_per_trigger=10)
    hub.send(0, *range(0, 20))
    hub.go(3, end)
    hub.send(1, *range(10, 60))
    hub.send(0, *range(HOUR, HOUR + 30))
    hub.go(2, end)
    hub.go(1)
    assert hub.watermark() <= 60
    hub.go(2, end)
    hub.go(9)
    counts = hub.counts()
    assert sum(counts.values()) == 100 - 10, "the last window is open"
    assert hub.watermark() == HOUR + 29


@pytest.mark.parametrize(("timeout", "waits"), [(None, True), (1000, True), (1e-6, False)])
def test_it_may_wait_for_longer(run: Run, timeout: float | None, waits: bool) -> None:
    hub = run(idle_timeout=timeout)
    hub.send(0, 15, 25)
    hub.go(4)
    assert hub.watermark() == (NONE if waits else 25)


def test_a_partition_that_is_found_with_events_holds_it_back(
    run: Run, server: EventHubsServer
) -> None:
    hub = run(discover_partitions=0)
    hub.send(0, 10)
    hub.send(1, 10)
    hub.go(2)
    server.grow("clicks", 3)
    hub.send(2, 11, 21)
    hub.send(0, 50)
    hub.send(1, 60)
    hub.go(2)
    assert hub.watermark() == 10
    hub.go(3)
    assert hub.counts() == {10: 3, 20: 1, 50: 1}


def test_what_is_there_is_read_and_ended_in_one_run(run: Run) -> None:
    hub = run()
    hub.send(0, 1, 15)
    hub.send(1, 2)
    # Elsewhere sparkbeam itself ends the run, and sees the end one micro-batch before Spark does.
    hub.go(4 if freezes_available_now() else 3, options=["--trigger=available-now"])
    assert hub.watermark() == 15
