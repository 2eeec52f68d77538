"""Checkpoints that were written by the version that their name tells."""

import json
import re
from collections import defaultdict
from pathlib import Path

import golden
import pytest

from sparkbeam.plan.fingerprint import READABLE_FORMATS, STATE_FORMAT
from sparkbeam.streaming import tick_source

STORED = sorted(golden.FOLDER.glob("*.json"))


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_a_stored_checkpoint_is_gone_on_from(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tick_source, "_MOST_ROUNDS", golden.ROUNDS)
    found, expected = golden.resume(path, tmp_path)
    assert len(expected) > 20
    assert found == sorted(expected)


def test_there_is_one_of_each_format_that_can_be_read() -> None:
    pipelines = [json.loads(p.read_text())["files"]["sparkbeam/pipeline.json"] for p in STORED]
    assert {json.loads(pipeline)["format"] for pipeline in pipelines} >= READABLE_FORMATS
    assert STATE_FORMAT in READABLE_FORMATS


def test_timers_of_the_clock_that_an_earlier_version_has_set_lose_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That version took the clock for the watermark when one fired."""
    monkeypatch.setattr(tick_source, "_MOST_ROUNDS", golden.ROUNDS)
    path = golden.FOLDER / "clocked" / "format-6.json"
    found, _ = golden.resume(path, tmp_path, golden.build_clocked)
    numbers: dict[str, list[int]] = defaultdict(list)
    on_time: dict[str, int] = defaultdict(int)
    for line in [*json.loads(path.read_text())["before"], *found]:
        name, timing, values = re.fullmatch(r"(.+): (\S+) (\[.*\])", line).groups()  # type: ignore[union-attr]
        numbers[name] += json.loads(values)
        on_time[name] += timing == "ON_TIME"
    assert len(numbers) == 2 * len(golden.CLOCKED)
    for name, found_numbers in numbers.items():
        assert sorted(found_numbers) == list(range(golden.NUMBERS)), name
    assert not [line for line in found if ": LATE" in line]
    for trigger in ("early", "early and late"):
        assert on_time[f"{trigger}, FixedWindows"] == 2
        assert on_time[f"{trigger}, Sessions"] == 1
