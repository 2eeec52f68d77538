"""What is read from a checkpoint, and between layers, is data: no code runs because of it."""

import os
import pickle
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark, Repeatedly
from apache_beam.transforms.window import FixedWindows
from in_process import Crashes, Spark, streaming_pipeline

from sparkbeam import PipelineFailed
from sparkbeam.wire import plaindata
from sparkbeam.wire.messages import Round, ShardStatus, StageStatus, Tick, dump, load, unpack


class Evil:
    """Makes a folder when it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self._folder),)


@pytest.mark.parametrize(
    "content",
    [None, 7, -(1 << 80), 1.5, "text", b"bytes", (1, [2], {b"3": {4}}), {"a": ((), True)}],
)
def test_plain_data_comes_back(content: Any) -> None:
    assert plaindata.loads(plaindata.dumps(content)) == content


def test_equal_contents_are_equal_bytes_whatever_they_share() -> None:
    part = b"part" * 100
    assert plaindata.dumps([part, part]) == plaindata.dumps([part, bytes(bytearray(part))])


@pytest.mark.parametrize("content", [object(), len, Path, Tick(1, ()), [(1, os.getcwd)]])
def test_what_is_no_plain_data_is_not_written(content: Any) -> None:
    with pytest.raises(plaindata.NotPlainData):
        plaindata.dumps(content)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("read", [plaindata.loads, load, unpack])
def test_what_names_code_is_not_read(read: Any, protocol: int, tmp_path: Path) -> None:
    folder = tmp_path / "made"
    with pytest.raises(plaindata.NotPlainData):
        read(pickle.dumps([Evil(folder)], protocol))
    assert not folder.exists()


def test_messages_come_back() -> None:
    status = ShardStatus(1, 2, {"stage": StageStatus(3, 4, due=None, keys=5)})
    tick = Tick(1, (Round(2, {3: 4}), Round(5, {})), start=True)
    assert (load(dump(status)), load(dump(tick))) == (status, tick)


def test_state_that_somebody_has_replaced_is_an_error_and_runs_nothing(tmp_path: Path) -> None:
    spark = Spark(Crashes((1, "committed")))
    with pytest.raises(PipelineFailed):
        counted(spark, str(tmp_path)).run().wait_until_finish()
    checkpoint = spark.checkpoints[str(tmp_path)]
    folder = tmp_path / "made"
    for entries in checkpoint.state.values():
        assert entries
        for name in entries:
            entries[name] = pickle.dumps(Evil(folder))
    with pytest.raises(PipelineFailed, match="plain data"):
        counted(spark, str(tmp_path)).run().wait_until_finish()
    assert not folder.exists()


def counted(spark: Spark, checkpoint: str) -> beam.Pipeline:
    events = TestStream()
    for second in range(0, 2000, 5):  # More rounds than a micro-batch has.
        events = events.add_elements([second % 7]).advance_watermark_to(second)
    pipeline = streaming_pipeline(spark, checkpoint)
    _ = (
        pipeline
        | events.advance_watermark_to_infinity()
        | beam.WindowInto(
            FixedWindows(100),
            trigger=AfterWatermark(early=Repeatedly(AfterCount(3))),
            accumulation_mode=AccumulationMode.ACCUMULATING,
        )
        | beam.Map(lambda number: (number, 1))
        | beam.CombinePerKey(sum)
    )
    return pipeline
