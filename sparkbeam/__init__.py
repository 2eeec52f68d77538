"""Apache Beam Python pipelines on Spark, through PySpark's DataFrame API alone.

The public names are loaded on first use, so that ``import sparkbeam`` costs
neither an import of Beam nor one of PySpark.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sparkbeam.version import __version__

if TYPE_CHECKING:
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
    from sparkbeam.metrics.metrics_sink import (
        MetricsSink,
        PushedMetrics,
        RunnerMetric,
        RunnerMetricKind,
    )
    from sparkbeam.metrics.summary import RunSummary, SparkStage, StageSummary, StepSummary
    from sparkbeam.options.spark_options import SparkBeamOptions
    from sparkbeam.progress.figures import (
        PipelineProgress,
        Progress,
        StageProgress,
        StageState,
        StreamingProgress,
        StreamingStageProgress,
        WatermarkHolder,
    )
    from sparkbeam.run.result import SparkPipelineResult
    from sparkbeam.runner.dataframes import as_dataframe
    from sparkbeam.runner.spark_runner import SparkRunner
    from sparkbeam.windows.vectorized import VectorizedCombineFn

_HOMES = {
    "AsOfJoin": "sparkbeam.joins.asof",
    "CheckpointFailed": "sparkbeam.errors",
    "CheckpointTaken": "sparkbeam.errors",
    "ConfigurationError": "sparkbeam.errors",
    "Explanation": "sparkbeam.explain.explanation",
    "IncrementalJoin": "sparkbeam.joins.incremental",
    "Join": "sparkbeam.joins.equijoin",
    "MetricsSink": "sparkbeam.metrics.metrics_sink",
    "PipelineCancelled": "sparkbeam.errors",
    "PipelineFailed": "sparkbeam.errors",
    "PipelineProgress": "sparkbeam.progress.figures",
    "Progress": "sparkbeam.progress.figures",
    "PushedMetrics": "sparkbeam.metrics.metrics_sink",
    "RunSummary": "sparkbeam.metrics.summary",
    "RunnerMetric": "sparkbeam.metrics.metrics_sink",
    "RunnerMetricKind": "sparkbeam.metrics.metrics_sink",
    "SparkBeamError": "sparkbeam.errors",
    "SparkBeamOptions": "sparkbeam.options.spark_options",
    "SparkPipelineResult": "sparkbeam.run.result",
    "SparkRunner": "sparkbeam.runner.spark_runner",
    "StageProgress": "sparkbeam.progress.figures",
    "StageState": "sparkbeam.progress.figures",
    "SparkStage": "sparkbeam.metrics.summary",
    "StageSummary": "sparkbeam.metrics.summary",
    "StepSummary": "sparkbeam.metrics.summary",
    "StreamingProgress": "sparkbeam.progress.figures",
    "StreamingStageProgress": "sparkbeam.progress.figures",
    "WatermarkHolder": "sparkbeam.progress.figures",
    "UnsupportedTransform": "sparkbeam.errors",
    "VectorizedCombineFn": "sparkbeam.windows.vectorized",
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


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'sparkbeam' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "coders", "io", "state"]
