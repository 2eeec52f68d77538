"""Apache Beam Python pipelines on Spark, through PySpark's DataFrame API alone.

The public names are loaded on first use, so that ``import sparkbeam`` costs
neither an import of Beam nor one of PySpark.
"""

from typing import TYPE_CHECKING

from sparkbeam.common.lazy_names import loader
from sparkbeam.version import __version__

if TYPE_CHECKING:
    from sparkbeam.accumulators.vectorized import VectorizedCombineFn
    from sparkbeam.errors import (
        CheckpointFailed,
        CheckpointTaken,
        ConfigurationError,
        PipelineCancelled,
        PipelineFailed,
        SparkBeamError,
        UnsupportedTransform,
    )
    from sparkbeam.explain.explanation import Explanation
    from sparkbeam.joins.asof import AsOfJoin
    from sparkbeam.joins.equijoin import Join
    from sparkbeam.joins.incremental import IncrementalJoin
    from sparkbeam.observe.figures.progress import (
        PipelineProgress,
        Progress,
        StageProgress,
        StageState,
        StreamingProgress,
        StreamingStageProgress,
        WatermarkHolder,
    )
    from sparkbeam.observe.figures.summary import RunSummary, SparkStage, StageSummary, StepSummary
    from sparkbeam.observe.sinks.metrics_sink import (
        MetricsSink,
        PushedMetrics,
        RunnerMetric,
        RunnerMetricKind,
    )
    from sparkbeam.options.spark_options import SparkBeamOptions
    from sparkbeam.run.result import SparkPipelineResult
    from sparkbeam.runner.dataframes import as_dataframe
    from sparkbeam.runner.spark_runner import SparkRunner

_HOMES = {
    "AsOfJoin": "sparkbeam.joins.asof",
    "CheckpointFailed": "sparkbeam.errors",
    "CheckpointTaken": "sparkbeam.errors",
    "ConfigurationError": "sparkbeam.errors",
    "Explanation": "sparkbeam.explain.explanation",
    "IncrementalJoin": "sparkbeam.joins.incremental",
    "Join": "sparkbeam.joins.equijoin",
    "MetricsSink": "sparkbeam.observe.sinks.metrics_sink",
    "PipelineCancelled": "sparkbeam.errors",
    "PipelineFailed": "sparkbeam.errors",
    "PipelineProgress": "sparkbeam.observe.figures.progress",
    "Progress": "sparkbeam.observe.figures.progress",
    "PushedMetrics": "sparkbeam.observe.sinks.metrics_sink",
    "RunSummary": "sparkbeam.observe.figures.summary",
    "RunnerMetric": "sparkbeam.observe.sinks.metrics_sink",
    "RunnerMetricKind": "sparkbeam.observe.sinks.metrics_sink",
    "SparkBeamError": "sparkbeam.errors",
    "SparkBeamOptions": "sparkbeam.options.spark_options",
    "SparkPipelineResult": "sparkbeam.run.result",
    "SparkRunner": "sparkbeam.runner.spark_runner",
    "StageProgress": "sparkbeam.observe.figures.progress",
    "StageState": "sparkbeam.observe.figures.progress",
    "SparkStage": "sparkbeam.observe.figures.summary",
    "StageSummary": "sparkbeam.observe.figures.summary",
    "StepSummary": "sparkbeam.observe.figures.summary",
    "StreamingProgress": "sparkbeam.observe.figures.progress",
    "StreamingStageProgress": "sparkbeam.observe.figures.progress",
    "WatermarkHolder": "sparkbeam.observe.figures.progress",
    "UnsupportedTransform": "sparkbeam.errors",
    "VectorizedCombineFn": "sparkbeam.accumulators.vectorized",
    "as_dataframe": "sparkbeam.runner.dataframes",
}

__all__ = [
    "AsOfJoin",
    "CheckpointFailed",
    "CheckpointTaken",
    "ConfigurationError",
    "Explanation",
    "IncrementalJoin",
    "Join",
    "MetricsSink",
    "PipelineCancelled",
    "PipelineFailed",
    "PipelineProgress",
    "Progress",
    "PushedMetrics",
    "RunSummary",
    "RunnerMetric",
    "RunnerMetricKind",
    "SparkBeamError",
    "SparkBeamOptions",
    "SparkPipelineResult",
    "SparkRunner",
    "SparkStage",
    "StageProgress",
    "StageState",
    "StageSummary",
    "StepSummary",
    "StreamingProgress",
    "StreamingStageProgress",
    "UnsupportedTransform",
    "VectorizedCombineFn",
    "WatermarkHolder",
    "__version__",
    "as_dataframe",
]


__getattr__ = loader(__name__, _HOMES)


def __dir__() -> list[str]:
    return [*__all__, "coders", "io", "state"]
