"""When the source of ticks has another one, and with which watermark, by what Spark has noted."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sparkbeam.streaming import execution, tick_source
from sparkbeam.streaming.available_now import AvailableNowRun
from sparkbeam.streaming.checkpoint_files import LocalFiles
from sparkbeam.streaming.exhausted_partitions import ExhaustedPartitions
from sparkbeam.streaming.feedback import Feedback, FeedbackFiles
from sparkbeam.streaming.generation import Generation
from sparkbeam.streaming.source_news import FolderChanges, Look, SourceNews
from sparkbeam.streaming.source_watermarks import SourceClock
from sparkbeam.streaming.tick_source import SourceSpec, TickReader

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

    def of(self, looks: list[Look], rows: str, *clocks: SourceClock, **parts: Any) -> list[float]:
        """Returns the seconds before each micro-batch but the first; ``1`` stands for rows."""
        spec = SourceSpec(str(self.folder), clocks=clocks, rests=True, takes_all=True)
        reader, found = TickReader(replace(spec, looks=tuple(looks))), []
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
    assert waits.of([], "00000100", ROWS) == [0.1, 0.2, 0.4, 0.8, 1.0, 0.0, 0.1]


@pytest.mark.parametrize(("due", "pause"), [(None, 0.5), (12, 0.5), (10.2, 0.2)])
def test_a_query_rests_up_to_the_next_timer(due: float | None, pause: float, waits: Waits) -> None:
    assert waits.of([], "00", due=due and round(due * SECOND)) == [pause]


@pytest.mark.parametrize(
    ("clock", "rows", "parts", "pauses"),
    [
        (ROWS, "0100", {"empty": True}, [0.1, 30, 30]),
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
    assert waits.of([lambda offsets: 1], rows, clock, **parts) == pauses


def test_news_end_a_rest(waits: Waits) -> None:
    news = [lambda offsets: waits.now > 14 * SECOND]
    assert waits.of(news, "00100", ROWS, empty=True) == [0.1, 3.9, 30, 30]


def test_a_drain_ends_a_rest(waits: Waits) -> None:
    kept = FeedbackFiles(LocalFiles(str(waits.folder)))

    def look(offsets: Any) -> bool:
        if waits.now > 14 * SECOND:
            kept.ask_to_drain()
        return True

    assert waits.of([look], "000", ROWS, empty=True) == [0.1, 3.9]


def test_a_new_file_is_news(tmp_path: Path) -> None:
    folder, look = tmp_path / "part=1", FolderChanges(str(tmp_path))
    folder.mkdir()
    before = look({})
    assert before == look({})
    (folder / "new").touch()
    after = look({})
    assert before != after == look({})
    assert FolderChanges(str(tmp_path / "gone"))({}) is None


def test_a_source_without_an_answer_is_not_asked_again() -> None:
    news = SourceNews([lambda offsets: offsets["away"]])
    assert (news.now({}), news.looks) == (None, ())


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
