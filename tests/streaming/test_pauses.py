"""A micro-batch that has read something has a successor, whether or not rows have come out."""

import json
from pathlib import Path

import pytest

from sparkbeam.streaming import tick_source
from sparkbeam.streaming.checkpoint_files import LocalFiles
from sparkbeam.streaming.feedback import Feedback, FeedbackFiles
from sparkbeam.streaming.source_watermarks import SourceClock
from sparkbeam.streaming.tick_source import SourceSpec, TickReader


@pytest.mark.parametrize(
    ("before", "now", "goes_on"),
    [
        (['{"n": 1}'], ['{"n": 2}'], True),
        (['{"n": 1}'], ['{"n": 1}'], False),
        (["-"], ["-"], False),
        (["-", '{"n": 1}'], ['{"n": 0}', '{"n": 1}'], True),
    ],
)
def test_offsets_tell_what_has_been_read(
    tmp_path: Path, before: list[str], now: list[str], goes_on: bool
) -> None:
    reader = TickReader(SourceSpec(str(tmp_path), clocks=(SourceClock(tag=1),)))
    reader.prepareForTriggerAvailableNow()
    _, tick = reader.read(reader.initialOffset())
    (tmp_path / "offsets").mkdir()
    for number, offsets in enumerate((before, now)):
        tick |= {"number": number + 1}
        lines = ["v1", "{}", json.dumps(tick), *offsets]
        (tmp_path / "offsets" / str(number)).write_text("\n".join(lines))
        FeedbackFiles(LocalFiles(str(tmp_path))).write(Feedback(number + 1, False, None))
    _, end = reader.read(tick)
    assert end["number"] == (3 if goes_on else 2)


def test_nothing_at_all_is_read_once(tmp_path: Path) -> None:
    reader = TickReader(SourceSpec(str(tmp_path), clocks=(SourceClock(tag=1),)))
    reader.prepareForTriggerAvailableNow()
    _, tick = reader.read(reader.initialOffset())
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text("\n".join(["v1", "{}", json.dumps(tick), "-"]))
    FeedbackFiles(LocalFiles(str(tmp_path))).write(Feedback(1, False, None))
    _, end = reader.read(tick)
    assert end["number"] == 1


def test_pauses_grow_up_to_a_second_until_there_are_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    now = [10_000_000]
    monkeypatch.setattr(tick_source.time, "sleep", pauses.append)
    monkeypatch.setattr(tick_source.Clock, "after", lambda clock, time: now[0])
    reader = TickReader(SourceSpec(str(tmp_path), clocks=(SourceClock(tag=1),)))
    start = reader.initialOffset()
    for number in range(1, 9):
        _, end = reader.read(start)
        start = {**end, "time": now[0]}
        seen = {"1": {"": 1}} if number == 6 else {}
        FeedbackFiles(LocalFiles(str(tmp_path))).write(Feedback(number, False, None, seen=seen))
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.0, 0.1]
