"""Partitions that are slow to read get less, by a law that is tried here with times of its own."""

import socket
from collections.abc import Mapping
from typing import Any

import pytest
from hubs import at, numbered, rows, stream
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pyspark_eventhubs.admission import admitted
from pyspark_eventhubs.pool import POOL
from pyspark_eventhubs.read_reports import ReadReports
from pyspark_eventhubs.slow_partitions import Factors, RangeRead, SlowPartitions
from pyspark_eventhubs.source_options import SourceOptions
from pyspark_eventhubs.stream_readers import ReadMaxRows
from pyspark_eventhubs.testing import EventHubsServer

PER_EVENT = 0.001


class Hub:
    """Partitions that fill up, and a time for each event; all tasks of a micro-batch at once.

    Args:
        slowness: how much longer events of some partitions take than :data:`PER_EVENT`.
        threshold: of slow partitions; None to share by what is waiting alone.
    """

    def __init__(
        self, slowness: Mapping[str, float], partitions: int = 8, threshold: float | None = 0
    ) -> None:
        names = [str(number) for number in range(partitions)]
        self.slowness = {name: slowness.get(name, 1.0) for name in names}
        self.waiting = dict.fromkeys(names, 100_000)
        self.taken = dict.fromkeys(names, 0)
        self.clock = 0.0
        self.number = 0
        self.factors = None if threshold is None else Factors(SlowPartitions(threshold))

    def run(self, micro_batches: int, limit: int | None = 8000) -> None:
        for _ in range(micro_batches):
            self.number += 1
            factors = {} if self.factors is None else self.factors.current(self.waiting)
            taken = admitted(self.waiting, limit, None, factors)
            times = {name: n * PER_EVENT * self.slowness[name] for name, n in taken.items()}
            self.clock += max(times.values())
            for name, count in taken.items():
                self.waiting[name] += 1000 - count
                self.taken[name] += count
                if self.factors is not None:
                    self.factors.record(RangeRead(self.number, name, count, times[name]))

    def rate(self, *without: str) -> float:
        """Events a second of the other partitions from here on."""
        before = sum(n for name, n in self.taken.items() if name not in without), self.clock
        self.run(30)
        after = sum(n for name, n in self.taken.items() if name not in without), self.clock
        return (after[0] - before[0]) / (after[1] - before[1])


def test_a_partition_ten_times_slower_costs_the_others_little() -> None:
    rates = []
    for slowness, threshold in (({}, 0.0), ({"3": 10.0}, 0.0), ({"3": 10.0}, None)):
        hub = Hub(slowness, threshold=threshold)
        hub.run(20)
        rates.append(hub.rate("3"))
    undisturbed, adjusted, waiting = rates
    assert adjusted > 0.9 * undisturbed
    assert waiting < 0.2 * undisturbed


def test_what_a_slow_partition_gets_is_its_part_of_what_others_get() -> None:
    backlog = {"0": 100_000, "1": 100_000, "2": 100_000, "3": 50}
    taken = admitted(backlog, 4000, None, {"2": 0.1})
    assert taken["2"] == 200, "the largest other one would have 2,000 without it"
    assert sum(taken.values()) == 4000
    assert admitted(backlog, None, None, {"2": 0.1}) == backlog | {"2": 10_000}
    assert admitted({"2": 9000}, 4000, None, {"2": 0.1}) == {"2": 400}
    assert admitted(backlog, 2, None, {"2": 0.1}) == dict.fromkeys("0123", 1)


def test_it_gets_its_share_again_once_it_is_as_fast_as_the_others() -> None:
    hub = Hub({"3": 10.0})
    hub.run(20)
    assert hub.factors is not None
    assert 0.05 < hub.factors.current(hub.waiting)["3"] < 0.2
    hub.slowness["3"] = 1.0
    hub.run(20)
    assert not hub.factors.current(hub.waiting)


def test_a_partition_with_more_events_is_not_slow() -> None:
    hub = Hub({})
    hub.waiting["3"] = 10_000_000
    hub.run(10)
    assert hub.factors is not None
    assert not hub.factors.current(hub.waiting)


def test_reads_below_the_threshold_are_not_slow() -> None:
    hub = Hub({"3": 10.0}, threshold=11.0)
    hub.run(10)
    assert hub.factors is not None
    assert not hub.factors.current(hub.waiting), "1,000 events take it 10 s"


def test_it_takes_reports_of_half_of_the_partitions() -> None:
    def reported(partitions: int) -> Mapping[str, float]:
        factors = Factors(SlowPartitions(0))
        for name in range(partitions):
            factors.record(RangeRead(1, str(name), 10, 9.0 if name == 0 else 1.0))
        return factors.current([str(name) for name in range(8)])

    assert not reported(3)
    assert reported(4).keys() == {"0"}


def test_three_micro_batches_count() -> None:
    factors = Factors(SlowPartitions(0))

    def noted(number: int, seconds: float) -> Mapping[str, float]:
        for name in ("0", "1", "2", "3"):
            factors.record(RangeRead(number, name, 10, seconds if name == "0" else 1.0))
        return dict(factors.current(["0", "1", "2", "3"]))

    slow = noted(1, 7.0)
    assert slow["0"] == pytest.approx(2.5 / 7)
    assert noted(2, 1.0)["0"] <= 1
    for number in range(3, 9):
        last = noted(number, 1.0)
    assert not last


@settings(max_examples=200)
@given(
    st.dictionaries(st.sampled_from("0123456789"), st.integers(0, 10**9), min_size=1),
    st.none() | st.integers(1, 10**7),
    st.dictionaries(st.sampled_from("0123456789"), st.floats(0.001, 1.5)),
)
@example({"0": 0, "1": 1, "2": 1}, 1, {"1": 0.5, "2": 0.5})
def test_what_is_taken_is_there_and_within_the_limit(
    backlog: dict[str, int], limit: int | None, factors: dict[str, float]
) -> None:
    taken = admitted(backlog, limit, None, factors)
    assert taken.keys() == backlog.keys()
    for name, count in taken.items():
        assert min(1, backlog[name]) <= count <= backlog[name], "each gets something"
    if limit is not None:
        assert sum(taken.values()) <= limit + len(backlog)


@settings(max_examples=200)
@given(
    st.lists(
        st.builds(
            RangeRead,
            st.integers(0, 9),
            st.sampled_from("01234"),
            st.integers(0, 10**6),
            st.floats(0, 10**6),
        )
    )
)
def test_factors_are_between_nothing_and_one(reads: list[RangeRead]) -> None:
    factors = Factors(SlowPartitions(0))
    for read in reads:
        factors.record(read)
        assert all(0 < factor < 1 for factor in factors.current(list("01234")).values())


def test_reports_reach_the_planner_and_nothing_else_does() -> None:
    reports = ReadReports()
    read = RangeRead(1, "0", 10, 0.5)
    reports.to.send(read)
    for message in (b"", b"{}", b"[]", b"7", b"[" * 9999, b'{"token": null}', b"\xff"):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
            other.sendto(message, (reports.to.host, reports.to.port))
    forged = type(reports.to)(reports.to.host, reports.to.port, "guess")
    forged.send(read)
    for wrong in (
        RangeRead(-1, "0", 10, 0.5),
        RangeRead(1, "0", 10, float("nan")),
        RangeRead(1, 0, 10, 0.5),  # type: ignore[arg-type]
    ):
        reports.to.send(wrong)
    reports.to.send(RangeRead(2, "0", 10, 0.5))
    assert list(reports.received()) == [read, RangeRead(2, "0", 10, 0.5)]
    assert reports.to.token not in repr(reports.to)
    reports.close()


def test_the_planner_listens_where_it_is_told() -> None:
    reports = ReadReports("127.0.0.2", "0.0.0.0")
    reports.to.send(RangeRead(1, "0", 10, 0.5))
    assert reports.to.host == "127.0.0.2"
    assert list(reports.received()) == [RangeRead(1, "0", 10, 0.5)]
    reports.close()
    given = {"connectionString": "Endpoint=sb://h/", "eventHub": "clicks"}
    told = SourceOptions.parse({**given, "reportHost": "10.0.0.1", "reportBindAddress": "0.0.0.0"})
    assert (told.report_host, told.report_bind) == ("10.0.0.1", "0.0.0.0")
    assert SourceOptions.parse(given).report_bind is None


def test_a_stream_takes_less_of_what_its_tasks_tell_is_slow() -> None:
    with EventHubsServer({"clicks": 4}) as server:
        for partition in range(4):
            server.send("clicks", numbered(100), partition=partition)
        base = {
            "connectionString": server.connection_string("clicks"),
            "startingPosition": "start",
            "exclusive": "false",
        }
        before = stream(base)
        start: Any = before.initialOffset()
        end: Any = before.latestOffset(start, ReadMaxRows(40))
        rows(before, before.partitions(start, end))  # So all receivers are open.
        server.slow_down("clicks", 2, 20)
        reader = stream(base, slowPartitionThreshold="0.1")
        taken: list[dict[str, int]] = []
        for _ in range(2):
            start, end = end, reader.latestOffset(end, ReadMaxRows(40))
            assert len(rows(reader, reader.partitions(start, end))) > 0
            taken.append({name: number - at(start)[name] for name, number in at(end).items()})
        POOL.close()
    assert taken[0] == dict.fromkeys("0123", 10)
    assert taken[1]["2"] < 10 <= min(taken[1][name] for name in "013")
