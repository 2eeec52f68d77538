"""Progress of a streaming query on Spark."""

from typing import Any

import apache_beam as beam
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.window import FixedWindows
from waiting import until

from sparkbeam import SparkBeamOptions, SparkRunner
from sparkbeam.observe.figures.progress import StageState, StreamingProgress


def test_figures_move_while_the_query_runs(spark: Any) -> None:
    p = beam.Pipeline(SparkRunner(spark), SparkBeamOptions(["--streaming"]))
    (
        p
        | PeriodicImpulse(fire_interval=0.1)
        | beam.WindowInto(FixedWindows(1))
        | beam.Map(lambda stamp: (int(stamp) % 3, 1))
        | beam.CombinePerKey(sum)
        | "Counts" >> beam.Map(str)
    )
    result: Any = p.run()

    def progress() -> StreamingProgress:
        found = result.progress()
        assert isinstance(found, StreamingProgress)
        return found

    def counted(found: StreamingProgress) -> int:
        (stage,) = (stage for stage in found.stages if "Counts" in stage.name.split(" + "))
        return stage.elements

    try:
        assert progress().state is StageState.WAITING
        until(lambda: counted(progress()) > 0, seconds=150)
        first = progress()
        until(lambda: counted(progress()) > counted(first), seconds=150)
        second = progress()
    finally:
        result.cancel()
    assert second.micro_batch > first.micro_batch
    assert second.per_second > 0
    assert second.batch_seconds > 0
    assert second.lag_seconds is not None
    of_sink = {"stages", "collecting", "feedback"}
    assert {
        "latestOffset",
        "walCommit",
        "addBatch",
        "commitOffsets",
    } | of_sink <= second.phases.keys()
    assert sum(second.phases[name] for name in of_sink) <= second.phases["addBatch"] + 0.001
    marks = [found.stages[-1].input_watermark for found in (first, second)]
    assert None not in marks
    assert marks[0] < marks[1]  # type: ignore[operator]
    assert progress().state is StageState.STOPPED
