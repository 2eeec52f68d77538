"""When the source of ticks has another one, and with which watermark, by what Spark has noted."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sparkbeam.plan.source_hooks import SourceClient
from sparkbeam.plan.spark_io import ReadSpec
from sparkbeam.streaming import execution, tick_source
from sparkbeam.streaming.available_now import AvailableNowRun
from sparkbeam.streaming.checkpoint_files import LocalFiles
from sparkbeam.streaming.exhausted_partitions import ExhaustedPartitions
from sparkbeam.streaming.feedback import Feedback, FeedbackFiles
from sparkbeam.streaming.generation import Generation
from sparkbeam.streaming.source_news import FolderChanges
from sparkbeam.streaming.source_watermarks import SourceClock
from sparkbeam.streaming.spark_sources import connects
from sparkbeam.streaming.tick_source import SourceSpec, TickReader
from sparkbeam_kafka.hooks import KafkaHooks

SECOND = 1_000_000


def note(folder: Path, tick: dict[str, Any], *offsets: str, **parts: Any) -> None:
    """Notes a micro-batch that ended at a tick, with the offsets of other sources."""
    log = folder / "offsets" / str(tick["number"] - 1)
    log.parent.mkdir(exist_ok=True)
    log.write_text("\n".join(["v1", "{}", json.dumps(tick), *offsets]))
    feedback = Feedback(tick["number"], False, parts.pop("due", None), **parts)
    FeedbackFiles(LocalFiles(str(folder))).write(feedback)


@pytest.mark.parametrize(
    ("offsets", "last"),
    [
        ([['{"n": 1}'], ['{"n": 2}']], 3),
        ([['{"n": 1}'], ['{"n": 1}']], 2),
        ([["-"], ["-"]], 2),
        ([["-", '{"n": 1}'], ['{"n": 0}', '{"n": 1}']], 3),
        ([["-"]], 1),
    ],
)
def test_offsets_tell_what_has_been_read(
    tmp_path: Path, offsets: list[list[str]], last: int
) -> None:
    reader = TickReader(SourceSpec(str(tmp_path), clocks=(SourceClock(tag=1),)))
    reader.prepareForTriggerAvailableNow()
    _, tick = reader.read(reader.initialOffset())
    for number, found in enumerate(offsets, 1):
        tick |= {"number": number}
        note(tmp_path, tick, *found)
    _, end = reader.read(tick)
    assert end["number"] == last


Ends = Callable[[Any], dict[str, int]]


class Client(SourceClient):
    """A source that is asked where it ends."""

    def __init__(self, ends: Ends) -> None:
        self._ends = ends

    def ends(self, offsets: Mapping[str, int]) -> dict[str, int]:
        return self._ends(offsets)


class Waits:
    """The clock of the machine, which goes on only while the source of ticks waits."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.now = folder, 10 * SECOND
        monkeypatch.setattr("sparkbeam.streaming.clock.now_micros", lambda: self.now)
        monkeypatch.setattr("time.sleep", self._sleep)
        monkeypatch.setattr(tick_source, "_REST_MICROS", SECOND // 2)
        monkeypatch.setattr(tick_source, "_LOOK_SECONDS", 0)

    def _sleep(self, seconds: float) -> None:
        self.now += round(seconds * SECOND)

    def of(self, ends: Ends | None, rows: str, *clocks: SourceClock, **parts: Any) -> list[float]:
        """Returns the seconds before each micro-batch but the first; ``1`` stands for rows.

        Args:
            ends: answers for the source; None if only Spark can ask it.
        """
        found_by = () if ends is None else (lambda: Client(ends),)
        spec = SourceSpec(str(self.folder), clocks=clocks, rests=True, connects=found_by)
        reader, found = TickReader(spec), []
        tick = reader.initialOffset()
        for has_rows in rows:
            before = self.now
            _, tick = reader.read(tick)
            found.append(round((self.now - before) / SECOND, 1))
            seen = {"1": {"": 1}} if has_rows == "1" else {}
            note(self.folder, tick, "-", seen=seen, **parts)
        return found[1:]


@pytest.fixture
def waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Waits:
    return Waits(tmp_path, monkeypatch)


ROWS = SourceClock(tag=1)
MACHINE = SourceClock(tag=1, by_rows=False)
IDLE = SourceClock(tag=1, idle=60 * SECOND, follows=True)


def test_pauses_grow_up_to_a_second_until_there_are_rows(waits: Waits) -> None:
    assert waits.of(None, "00000100", ROWS) == [0.1, 0.2, 0.4, 0.8, 1.0, 0.0, 0.1]


@pytest.mark.parametrize(("due", "pause"), [(None, 0.5), (12, 0.5), (10.2, 0.2)])
def test_a_query_rests_up_to_the_next_timer(due: float | None, pause: float, waits: Waits) -> None:
    assert waits.of(None, "00", due=due and round(due * SECOND)) == [pause]


@pytest.mark.parametrize(
    ("clock", "rows", "parts", "pauses"),
    [
        (ROWS, "0100", {"empty": True}, [0.1, 0, 30]),  # There may be more rows.
        (ROWS, "0100", {}, [0.1, 0, 30]),  # State gets the watermark of the rows.
        (MACHINE, "0000", {"empty": True}, [0.1, 30, 30]),
        (MACHINE, "0000", {}, [0.1, 0.2, 0.4]),
        (IDLE, "0100", {}, [0.1, 0, 0.1]),
        (ROWS, "000", {"due": 17 * SECOND}, [0.1, 6.9]),
        (ROWS, "000", {"waits": True}, [0.1, 0.2]),
        (ROWS, "000", {"finalizers": ("a",)}, [0.1, 0.2]),
    ],
)
def test_without_news_a_query_rests_until_time_has_something_to_do(
    clock: SourceClock, rows: str, parts: dict[str, Any], pauses: list[float], waits: Waits
) -> None:
    assert waits.of(lambda offsets: {}, rows, clock, **parts) == pauses


def test_news_end_a_rest(waits: Waits) -> None:
    def ends(offsets: Any) -> dict[str, int]:
        return {"": waits.now // (14 * SECOND)}

    assert waits.of(ends, "00000", ROWS, empty=True) == [0.1, 3.9, 14, 14]


def test_a_drain_ends_a_rest_and_waits_for_timers_without_haste(waits: Waits) -> None:
    kept = FeedbackFiles(LocalFiles(str(waits.folder)))

    def ends(offsets: Any) -> dict[str, int]:
        if waits.now > 14 * SECOND:
            kept.ask_to_drain()
        return {}

    pauses = waits.of(ends, "00000", ROWS, empty=True, due=1000 * SECOND)
    assert pauses == [0.1, 3.9, 0.5, 0.5]


def test_after_an_error_of_a_source_micro_batches_look_for_its_rows(waits: Waits) -> None:
    asked: list[int] = []

    def ends(offsets: Any) -> dict[str, int]:
        asked.append(waits.now)
        if waits.now > 14 * SECOND:
            raise OSError
        return {}

    assert waits.of(ends, "0000000", ROWS, empty=True) == [0.1, 3.9, 0.4, 0.8, 1, 1]
    assert len([each for each in asked if each > 14 * SECOND]) == 1


def test_a_new_file_is_news(tmp_path: Path) -> None:
    folder, ask = tmp_path / "part=1", FolderChanges(str(tmp_path)).ends
    folder.mkdir()
    before = ask({})
    assert before == ask({})
    (folder / "new").touch()
    after = ask({})
    assert before != after == ask({})
    assert FolderChanges(str(tmp_path / "gone")).ends({}) is None


def test_files_in_a_folder_that_appears_while_others_are_listed_are_news(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def listed(*_: Any, **__: Any) -> Iterator[tuple[str]]:
        monkeypatch.undo()
        (tmp_path / "late").mkdir()
        yield (str(tmp_path),)
        time.sleep(0.05)

    ask = FolderChanges(str(tmp_path)).ends
    monkeypatch.setattr(os, "walk", listed)
    before = ask({})
    (tmp_path / "late" / "new").touch()
    assert ask({}) != before


KAFKA = ReadSpec("kafka", hooks=KafkaHooks(()))


@pytest.mark.parametrize(
    ("specs", "count"),
    [
        ([KAFKA] * 3, 3),
        ([KAFKA] * 4, 0),  # Spark asks them in any order.
        ([KAFKA, ReadSpec("rate")], 0),
        ([replace(KAFKA, options=(("minOffsetsPerTrigger", "5"),))], 0),
    ],
)
def test_there_is_news_if_all_sources_can_be_asked(specs: list[ReadSpec], count: int) -> None:
    sources: Any = [SimpleNamespace(spec=spec) for spec in specs]
    assert len(connects(None, sources)) == count


# What is noted of partitions with nothing left counts for the offset that it is of.

TAG = 7
HUB = SourceClock(tag=TAG, by_columns=True, tells=True, tells_ends=True, idle=0)


@pytest.mark.parametrize(
    ("noted", "watermark"),
    [
        ({"1": 17}, 9),
        ({"1": 20}, None),  # The log has been put back.
        *((damaged, None) for damaged in (b"", b"{", b"[]", b"null", b'{"1": "17"}', b"\xff")),
    ],
)
def test_a_partition_is_at_its_end_at_the_offset_that_is_noted(
    tmp_path: Path, noted: bytes | dict[str, int], watermark: int | None
) -> None:
    """Partition 0 has been read to the second 9, and 1 is at the offset 17."""
    ends = ExhaustedPartitions(str(tmp_path), TAG)
    reader = TickReader(SourceSpec(str(tmp_path), clocks=(HUB,)))
    _, tick = reader.read(reader.initialOffset())
    for number in (1, 2):
        tick |= {"number": number}
        offsets = json.dumps({"hub": {"0": 30, "1": 17}})
        note(tmp_path, tick, offsets, seen={str(TAG): {"hub/0": 9 * SECOND}})
        if isinstance(noted, bytes):
            LocalFiles(str(tmp_path)).write(f"ends/{TAG}.json", noted)
        else:
            ends.write(noted)
        _, tick = reader.read(tick)
    found = tick["sources"][str(TAG)]["watermark"]
    assert (found // SECOND if found > 0 else None) == watermark
    assert ExhaustedPartitions.parse(ends.text()) == ends


# Runs of what there is, on versions of Spark that do not tell Python sources of them.


def reader_of(folder: Path, run: AvailableNowRun) -> TickReader:
    kept = LocalFiles(str(folder))
    generation = Generation.begin(kept, str(folder))
    clocks = (SourceClock(tag=0),)
    return TickReader(SourceSpec(str(folder), clocks=clocks, generation=generation, run=run))


def token(reader: TickReader) -> str:
    assert reader._spec.generation is not None
    return reader._spec.generation.token


@pytest.mark.parametrize(
    ("goes_on", "takes_all", "positions", "caught_up", "ticks"),
    [
        (True, False, (3, 6, 9, 9), None, 5),  # A micro-batch finds nothing.
        (True, True, (3, 6), None, 3),  # Rows that come until the query is stopped have a tick.
        (True, False, (3, 6, 9), 6, 4),
        (False, False, (3, 3), None, 2),
    ],
    ids=["nothing more", "never pauses", "has caught up", "sources that end"],
)
def test_a_run_ends(
    goes_on: bool,
    takes_all: bool,
    positions: tuple[int, ...],
    caught_up: int | None,
    ticks: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(execution, "freezes_available_now", lambda: False)
    monkeypatch.setattr(tick_source, "_STOP_SECONDS", 0)
    kept = FeedbackFiles(LocalFiles(str(tmp_path)))
    run = AvailableNowRun(goes_on=goes_on, takes_all=takes_all)
    reader = reader_of(tmp_path, run)
    tick = reader.initialOffset()
    for number, position in enumerate(positions, 1):
        assert not kept.is_over(token(reader))
        _, tick = reader.read(tick)
        assert tick["number"] == number
        note(tmp_path, tick, json.dumps({"at": position}))
        if position == caught_up:
            kept.catch_up(token(reader), number)
    _, after = reader.read(tick)
    assert kept.is_over(token(reader))
    assert after["number"] == ticks
    assert not kept.is_over(token(reader_of(tmp_path, run))), "the next one has not ended"


def test_who_plans_and_who_reads_an_event_hub_do_without_beam() -> None:
    """Their processes start with each query, and Beam would take them seconds."""
    modules = "sparkbeam.streaming.tick_source, sparkbeam_eventhubs.source, sparkbeam.hooks"
    code = f"import sys, {modules}; sys.exit('apache_beam' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
