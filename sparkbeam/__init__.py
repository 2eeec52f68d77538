"""Apache Beam Python pipelines on Spark, through PySpark's DataFrame API alone.

The public names are loaded on first use, so that ``import sparkbeam`` costs
neither an import of Beam nor one of PySpark.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sparkbeam.version import __version__

if TYPE_CHECKING:
    from sparkbeam.errors import (
        ConfigurationError,
        PipelineFailed,
        SparkBeamError,
        UnsupportedTransform,
    )
    from sparkbeam.options import SparkBeamOptions
    from sparkbeam.result import SparkPipelineResult
    from sparkbeam.runner import SparkRunner

_HOMES = {
    "ConfigurationError": "sparkbeam.errors",
    "PipelineFailed": "sparkbeam.errors",
    "SparkBeamError": "sparkbeam.errors",
    "SparkBeamOptions": "sparkbeam.options",
    "SparkPipelineResult": "sparkbeam.result",
    "SparkRunner": "sparkbeam.runner",
    "UnsupportedTransform": "sparkbeam.errors",
}

__all__ = [
    "ConfigurationError",
    "PipelineFailed",
    "SparkBeamError",
    "SparkBeamOptions",
    "SparkPipelineResult",
    "SparkRunner",
    "UnsupportedTransform",
    "__version__",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'sparkbeam' has no attribute {name!r}")
