"""State goes when nobody can need it any more."""

from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.window import FixedWindows, Sessions, SlidingWindows, TimestampedValue
from in_process import Crash, Point, Spark, StreamingRunner

from sparkbeam.errors import PipelineFailed
from sparkbeam.streaming import tick_source
from sparkbeam.worker.state.pages import ShardState
from sparkbeam.worker.state.store import MemoryMap

USERS = 50


def keys(spark: Spark) -> int:
    """Of how many keys there is state, in all stages and shards."""
    (checkpoint,) = spark.checkpoints.values()
    count = 0
    for entries in checkpoint.state.values():
        stored = MemoryMap()
        stored.entries = dict(entries)
        shard = ShardState(stored)
        count += sum(shard.stage(name).size[0] for name in shard._roots)
    return count


@pytest.mark.part(5)
@pytest.mark.parametrize("window", [FixedWindows(10), SlidingWindows(10, 5), Sessions(10)])
@pytest.mark.parametrize("what", [beam.GroupByKey(), beam.CombinePerKey(sum)])
def test_windows_that_have_expired_leave_nothing(
    window: Any, what: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tick_source, "_MOST_ROUNDS", 2)
    found: list[int] = []

    def look(point: Point) -> None:
        if point[1] == "committed":
            found.append(keys(spark))
            if point[0] == USERS:
                raise Crash("Enough has been seen.")

    spark = Spark(look)
    events = TestStream(coder=VarIntCoder())
    for user in range(2 * USERS):
        stamp = 30 * user
        events = events.add_elements([TimestampedValue(user, stamp)]).advance_watermark_to(stamp)
    options = PipelineOptions(["--streaming", f"--checkpoint_location={tmp_path}"])
    p = beam.Pipeline(runner=StreamingRunner(spark), options=options)
    pairs = p | events | beam.Map(lambda user: (user, 1)) | beam.WindowInto(window)
    _ = pairs | what | "Users" >> beam.Keys()
    with pytest.raises(PipelineFailed):
        p.run().wait_until_finish()
    assert len(found) == USERS + 1
    assert 0 < max(found) <= 3, "that of the user before may be there still"
