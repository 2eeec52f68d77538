"""Apache Beam Python pipelines on Spark, through PySpark's DataFrame API alone.

The public names are loaded on first use, so that ``import sparkbeam`` costs
neither an import of Beam nor one of PySpark.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sparkbeam.version import __version__

if TYPE_CHECKING:
    from sparkbeam.asof import AsOfJoin
    from sparkbeam.dataframes import as_dataframe
    from sparkbeam.equijoin import Join
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
    from sparkbeam.joins import IncrementalJoin
    from sparkbeam.metrics.sink import (
        MetricsSink,
        PushedMetrics,
        RunnerMetric,
        RunnerMetricKind,
    )
    from sparkbeam.metrics.sparkstages import SparkStage
    from sparkbeam.metrics.summary import RunSummary, StageSummary, StepSummary
    from sparkbeam.options import SparkBeamOptions
    from sparkbeam.progress.model import (
        PipelineProgress,
        Progress,
        StageProgress,
        StageState,
        StreamingProgress,
        StreamingStageProgress,
        WatermarkHolder,
    )
    from sparkbeam.result import SparkPipelineResult
    from sparkbeam.runner import SparkRunner
    from sparkbeam.windows.vectorized import VectorizedCombineFn

_HOMES = {
    "AsOfJoin": "sparkbeam.asof",
    "CheckpointFailed": "sparkbeam.errors",
    "CheckpointTaken": "sparkbeam.errors",
    "ConfigurationError": "sparkbeam.errors",
    "Explanation": "sparkbeam.explain.explanation",
    "IncrementalJoin": "sparkbeam.joins",
    "Join": "sparkbeam.equijoin",
    "MetricsSink": "sparkbeam.metrics.sink",
    "PipelineCancelled": "sparkbeam.errors",
    "PipelineFailed": "sparkbeam.errors",
    "PipelineProgress": "sparkbeam.progress.model",
    "Progress": "sparkbeam.progress.model",
    "PushedMetrics": "sparkbeam.metrics.sink",
    "RunSummary": "sparkbeam.metrics.summary",
    "RunnerMetric": "sparkbeam.metrics.sink",
    "RunnerMetricKind": "sparkbeam.metrics.sink",
    "SparkBeamError": "sparkbeam.errors",
    "SparkBeamOptions": "sparkbeam.options",
    "SparkPipelineResult": "sparkbeam.result",
    "SparkRunner": "sparkbeam.runner",
    "StageProgress": "sparkbeam.progress.model",
    "StageState": "sparkbeam.progress.model",
    "SparkStage": "sparkbeam.metrics.sparkstages",
    "StageSummary": "sparkbeam.metrics.summary",
    "StepSummary": "sparkbeam.metrics.summary",
    "StreamingProgress": "sparkbeam.progress.model",
    "StreamingStageProgress": "sparkbeam.progress.model",
    "WatermarkHolder": "sparkbeam.progress.model",
    "UnsupportedTransform": "sparkbeam.errors",
    "VectorizedCombineFn": "sparkbeam.windows.vectorized",
    "as_dataframe": "sparkbeam.dataframes",
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
