"""Reads that ``read_later`` announces: what they find, and in how many round trips."""

import pickle
import struct
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import BytesCoder, FastPrimitivesCoder, StrUtf8Coder, VarIntCoder
from apache_beam.coders.coders import GlobalWindowCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.combiners import ToListCombineFn
from apache_beam.transforms.userstate import (
    BagStateSpec,
    CombiningValueStateSpec,
    OrderedListStateSpec,
    ReadModifyWriteStateSpec,
    SetStateSpec,
)
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import Timestamp
from counted_map import CountedMap
from in_process import StreamingRunner
from in_process_batch import BatchRunner
from pyspark.sql.streaming.proto.StateMessage_pb2 import StateRequest, StateResponse

from sparkbeam.coders import OrderedIntCoder
from sparkbeam.state import MapStateSpec, MultimapStateSpec, SortedMultimapStateSpec
from sparkbeam.worker.keyed.requests import StageStateHandler
from sparkbeam.worker.state import store
from sparkbeam.worker.state.entries import CACHE_BYTES
from sparkbeam.worker.state.pages import ShardState
from sparkbeam.worker.state.store import ByteMap

MANY = 200
SPECS = {
    "value": ReadModifyWriteStateSpec("value", VarIntCoder()),
    "combining": CombiningValueStateSpec("combining", FastPrimitivesCoder(), ToListCombineFn()),
    "bag": BagStateSpec("bag", BytesCoder()),
    "other": BagStateSpec("other", BytesCoder()),
    "different": SetStateSpec("different", BytesCoder()),
    "ordered": OrderedListStateSpec("ordered", BytesCoder()),
    "by_name": MapStateSpec("by_name", StrUtf8Coder(), BytesCoder()),
    "by_number": MultimapStateSpec("by_number", VarIntCoder(), BytesCoder()),
    "sorted": SortedMultimapStateSpec("sorted", OrderedIntCoder(), BytesCoder()),
}
States = Any
Work = Callable[[States], Any]


def item(number: int) -> bytes:
    return b"%d" % number + b"." * 1000


def time(number: int) -> Timestamp:
    return Timestamp(micros=number)


def fill(of: States) -> None:
    """Makes all but the values too large for the record of the key."""
    of.value.write(7)
    of.combining.add(8)
    for number in range(MANY):
        for bag in (of.bag, of.other, of.different):
            bag.add(item(number))
        of.ordered.add((time(number), item(number)))
        of.by_name.put(str(number), item(number))
        of.by_number.put(number, item(number))
        of.sorted.put(2 * number, item(number))


class Server:
    """Spark's side of the connection to its state store, as the file of the client.

    Attributes:
        trips: how often the client has waited for answers.
    """

    def __init__(self) -> None:
        self.trips = 0
        self._entries: dict[bytes, bytes] = {}
        self._asked = b""
        self._answers = b""
        self._is_new = False

    def write(self, content: bytes) -> None:
        self._asked += content

    def flush(self) -> None:
        while self._asked:
            _, size = struct.unpack("!ii", self._asked[:8])
            request = StateRequest.FromString(self._asked[8 : 8 + size])
            self._asked = self._asked[8 + size :]
            answer = self._answer(request.stateVariableRequest.mapStateCall).SerializeToString()
            self._answers += struct.pack("!i", len(answer)) + answer
            self._is_new = True

    def _answer(self, call: Any) -> Any:
        match call.WhichOneof("method"):
            case "getValue":
                return StateResponse(value=self._entries.get(call.getValue.userKey, b""))
            case "updateValue":
                self._entries[call.updateValue.userKey] = call.updateValue.value
            case "removeKey":
                self._entries.pop(call.removeKey.userKey, None)
        return StateResponse()

    def read(self, size: int) -> bytes:
        self.trips += self._is_new
        self._is_new = False
        found, self._answers = self._answers[:size], self._answers[size:]
        return found


class Kept:
    """States of a key that are stored, and read anew by each bundle."""

    def __init__(self, cache_bytes: int = CACHE_BYTES, entries: ByteMap | None = None) -> None:
        self.entries: Any = entries or CountedMap()
        self._cache_bytes = cache_bytes
        self.bundle(fill)

    def bundle(self, *works: Work) -> list[Any]:
        """What functions of the states find, each for a key of its own."""
        shard = ShardState(self.entries, self._cache_bytes)
        of_stage = StageStateHandler("stage")
        of_stage.records = shard.stage("stage")
        step = of_stage.user_state("step", VarIntCoder(), GlobalWindowCoder(), "Step")
        found = [work(self._states(step, key)) for key, work in enumerate(works)]
        step.commit()
        shard.save()
        return found

    @staticmethod
    def _states(step: Any, key: int) -> States:
        window = GlobalWindow()
        get = {name: step.get_state(spec, key, window) for name, spec in SPECS.items()}
        return SimpleNamespace(**get)

    def trips(self, work: Work) -> int:
        """How often a bundle asks Spark's state store, beside the key's record."""

        def counted(of: States) -> int:
            before = self.entries.trips
            work(of)
            return self.entries.trips - before

        (found,) = self.bundle(counted)
        return int(found)


READS: dict[str, Work] = {
    "value": lambda of: of.value.read_later(),
    "combining": lambda of: of.combining.read_later(),
    "bag": lambda of: of.bag.read_later(),
    "other": lambda of: of.other.read_later(),
    "different": lambda of: of.different.read_later(),
    "ordered": lambda of: of.ordered.read_later(),
    "a range of ordered": lambda of: of.ordered.read_later(time(50), time(60)),
    "by_name": lambda of: of.by_name.read_later(),
    "keys of by_name": lambda of: of.by_name.read_later("7", "150", "none"),
    "by_number": lambda of: of.by_number.read_later(100, 3),
    "sorted": lambda of: of.sorted.read_later(),
    "a range of sorted": lambda of: of.sorted.read_later(low=51, high=90),
    "the end of sorted": lambda of: of.sorted.read_later(7, low=390),
}


def content(read: Any) -> Any:
    return sorted(read, key=repr) if hasattr(read, "__iter__") else read


@pytest.fixture(scope="module")
def kept() -> Kept:
    return Kept()


def announced(of: States) -> dict[str, Any]:
    later = {name: announce(of) for name, announce in READS.items()}
    return {name: content(handle.read()) for name, handle in later.items()}


def one_by_one(of: States) -> dict[str, Any]:
    return {name: content(announce(of).read()) for name, announce in READS.items()}


def test_all_that_is_announced_comes_in_a_round_trip_for_each_level(kept: Kept) -> None:
    assert kept.trips(announced) == 2, "that of the bags and of the nodes, that of the buckets"
    assert kept.trips(one_by_one) > 10


def test_over_the_connection_to_spark_they_are_round_trips_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Server()
    monkeypatch.setattr(store, "state_client", lambda _: ("state", server, pickle))
    kept, found = Kept(entries=store.PipelinedSparkMap(None)), list[int]()

    def counted(of: States) -> None:
        before = server.trips
        assert len(announced(of)) == len(READS)
        found.append(server.trips - before)

    kept.bundle(counted)
    assert found == [2]


def bags(of: States) -> None:
    later = [bag.read_later() for bag in (of.bag, of.other, of.different)]
    assert [len(list(bag.read())) for bag in later] == [MANY] * 3


def served(of: States) -> None:
    """Methods of maps find what has been announced."""
    of.sorted.read_later(101)
    of.by_name.read_later("7")
    of.by_number.read_later(3)
    assert of.sorted.floor(101) == (100, [item(50)])
    assert of.by_name.get("7") == item(7)
    assert list(of.by_number.get(3)) == [item(3)]


@pytest.mark.parametrize(
    ("work", "trips"),
    [
        (bags, 1),
        (served, 2),
        (lambda of: (of.value.read_later().read(), of.combining.read_later().read()), 0),
    ],
    ids=["bags", "methods of maps", "values"],
)
def test_round_trips(work: Work, trips: int, kept: Kept) -> None:
    assert kept.trips(work) == trips


def test_a_read_finds_the_same_as_one_that_is_not_announced(kept: Kept) -> None:
    def plain(of: States) -> dict[str, Any]:
        return {
            "value": of.value.read(),
            "combining": of.combining.read(),
            "bag": of.bag.read(),
            "other": of.other.read(),
            "different": of.different.read(),
            "ordered": of.ordered.read(),
            "a range of ordered": of.ordered.read_range(time(50), time(60)),
            "by_name": of.by_name.entries(),
            "keys of by_name": [(key, of.by_name.get(key)) for key in ("7", "150")],
            "by_number": [(key, value) for key in (100, 3) for value in of.by_number.get(key)],
            "sorted": of.sorted.all_entries(),
            "a range of sorted": of.sorted.entries_between(51, 90),
            "the end of sorted": list(of.sorted.entries_from(390)),
        }

    (found,) = kept.bundle(announced)
    (expected,) = kept.bundle(lambda of: {name: content(r) for name, r in plain(of).items()})
    assert found == expected


def test_what_is_written_behind_an_announcement_is_read() -> None:
    def work(of: States) -> None:
        bag, ordered = of.bag.read_later(), of.ordered.read_later()
        sorted_, by_name = of.sorted.read_later(), of.by_name.read_later("1", "new")
        of.bag.clear()
        of.bag.add(b"new")
        of.ordered.clear()
        of.sorted.remove_until(2 * MANY)
        of.sorted.put(-5, b"new")
        of.by_name.clear()
        of.by_name.put("new", b"new")
        assert list(bag.read()) == [b"new"]
        assert list(ordered.read()) == []
        assert list(sorted_.read()) == [(-5, b"new")]
        assert list(by_name.read()) == [("new", b"new")]

    kept = Kept()
    kept.bundle(work)
    (found,) = kept.bundle(lambda of: (list(of.bag.read()), list(of.sorted.entries())))
    assert found == ([b"new"], [(-5, b"new")])


def test_an_announcement_ends_with_its_bundle(kept: Kept) -> None:
    kept.entries.reads = 0
    kept.bundle(lambda of: (of.bag.read_later(), of.bag.add(b"")))
    assert kept.entries.reads < 5, "the root, the directory, the page; no segment"


def test_a_key_without_state_has_nothing_to_read(kept: Kept) -> None:
    _, found = kept.bundle(lambda of: None, announced)
    assert {name: value for name, value in found.items() if value} == {}


@pytest.mark.parametrize("cache_bytes", [0, 100_000])
def test_more_than_memory_holds_is_read_nevertheless(cache_bytes: int) -> None:
    kept = Kept(cache_bytes)
    (found,) = kept.bundle(announced)
    assert len(found["bag"]) == len(found["ordered"]) == len(found["sorted"]) == MANY


def test_ever_more_announcements_are_bounded(kept: Kept) -> None:
    def work(of: States) -> int:
        for number in range(10_000):
            of.sorted.read_later(number % MANY)
        return len(of.sorted._entries._bag._owner.overflow._announced)

    (found,) = kept.bundle(work)
    assert found < 1000


class Announcing(beam.DoFn):
    """Puts out all that a key has had before an element, read from two states at once."""

    BAG = BagStateSpec("bag", VarIntCoder())
    SORTED = SortedMultimapStateSpec("sorted", OrderedIntCoder(), VarIntCoder())

    def process(
        self,
        element: tuple[str, int],
        bag: Any = beam.DoFn.StateParam(BAG),
        sorted_: Any = beam.DoFn.StateParam(SORTED),
    ) -> Iterator[tuple[str, int, int]]:
        key, number = element
        later, ranged = bag.read_later(), sorted_.read_later(low=0)
        yield key, sum(later.read()), sum(value for _, value in ranged.read())
        bag.add(number)
        sorted_.put(number, number)


@pytest.mark.parametrize("runner", [StreamingRunner, BatchRunner])
def test_a_dofn_reads_later(runner: Any) -> None:
    arguments = ["--streaming"] if runner is StreamingRunner else []
    with beam.Pipeline(runner(), options=PipelineOptions(arguments)) as p:
        found = p | beam.Create([("a", 5), ("b", 5), ("a", 5)]) | beam.ParDo(Announcing())
        assert_that(found, equal_to([("a", 0, 0), ("b", 0, 0), ("a", 5, 5)]))
