"""What is noted of partitions with nothing left counts for the offset that it is of."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sparkbeam.streaming.checkpoint_files import LocalFiles
from sparkbeam.streaming.exhausted_partitions import ExhaustedPartitions
from sparkbeam.streaming.feedback import Feedback, FeedbackFiles
from sparkbeam.streaming.source_watermarks import SourceClock
from sparkbeam.streaming.tick_source import SourceSpec, TickReader

TAG = 7
SECOND = 1_000_000
HUB = SourceClock(tag=TAG, by_columns=True, tells=True, tells_ends=True, idle=0)


@pytest.fixture
def ends(tmp_path: Path) -> ExhaustedPartitions:
    return ExhaustedPartitions(str(tmp_path), TAG)


def watermark_after(
    folder: Path, ends: ExhaustedPartitions, noted: bytes | dict[str, int]
) -> int | None:
    """The watermark in seconds when partition 0 has been read to the second 9 and 1 is at 17."""
    reader = TickReader(SourceSpec(str(folder), clocks=(HUB,)))
    _, first = reader.read(reader.initialOffset())
    for number in (1, 2):
        FeedbackFiles(LocalFiles(str(folder))).write(
            Feedback(number, False, None, seen={str(TAG): {"hub/0": 9 * SECOND}})
        )
        (folder / "offsets").mkdir(exist_ok=True)
        hub = {"hub": {"0": 30, "1": 17}}
        lines = ["v1", "{}", json.dumps(first | {"number": number}), json.dumps(hub)]
        (folder / "offsets" / str(number - 1)).write_text("\n".join(lines))
        if isinstance(noted, bytes):
            LocalFiles(str(folder)).write(f"ends/{TAG}.json", noted)
        else:
            ends.write(noted)
        _, first = reader.read(first | {"number": number})
    micros: int = first["sources"][str(TAG)]["watermark"]
    return micros // SECOND if micros > 0 else None


def test_a_partition_is_at_its_end_at_the_offset_that_is_noted(
    tmp_path: Path, ends: ExhaustedPartitions
) -> None:
    assert watermark_after(tmp_path, ends, {"1": 17}) == 9


def test_it_is_not_where_the_log_has_been_put_back(
    tmp_path: Path, ends: ExhaustedPartitions
) -> None:
    assert watermark_after(tmp_path, ends, {"1": 20}) is None


@pytest.mark.parametrize("noted", [b"", b"{", b"[]", b"null", b'{"1": "17"}', b"\xff"])
def test_what_is_damaged_says_nothing(
    tmp_path: Path, ends: ExhaustedPartitions, noted: bytes
) -> None:
    assert watermark_after(tmp_path, ends, noted) is None


def test_it_is_an_option_of_the_source(ends: ExhaustedPartitions) -> None:
    assert ExhaustedPartitions.parse(ends.text()) == ends


def test_who_plans_and_who_reads_an_event_hub_do_without_beam() -> None:
    """Their processes start with each query, and Beam would take them seconds."""
    modules = "sparkbeam.streaming.tick_source, sparkbeam_eventhubs.source, sparkbeam.hooks"
    code = f"import sys, {modules}; sys.exit('apache_beam' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
