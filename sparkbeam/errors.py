"""Exception hierarchy of sparkbeam.

::

    SparkBeamError
    ├── ConfigurationError      an option, the session or the machine: fix it and run again
    │   └── PySparkMissing      sparkbeam brings no PySpark: platforms have one of their own
    ├── UnsupportedTransform    found at translation, before any Spark work starts
    └── PipelineFailed          a step failed while the pipeline ran
        ├── CheckpointFailed    a checkpoint file is damaged or cannot be written
        ├── CheckpointTaken     another driver has started over the same checkpoint
        └── PipelineCancelled   the pipeline was cancelled before it ended

A message says what happened, where (the user's transform label) and what to do about it.
"""

from sparkbeam.common.display_text import printable


class SparkBeamError(Exception):
    """Base of all errors raised by sparkbeam; its message is printable."""

    def __init__(self, *args: object) -> None:
        super().__init__(*(printable(each) if isinstance(each, str) else each for each in args))


class ConfigurationError(SparkBeamError, ValueError):
    """An option or the environment is wrong; the message names the remedy."""


class PySparkMissing(ConfigurationError, ModuleNotFoundError):
    """PySpark is not installed."""

    def __init__(self) -> None:
        super().__init__(
            "sparkbeam needs PySpark, which is not installed: pip install 'sparkbeam[spark]', or "
            "'sparkbeam[client]' to use a Spark Connect server without a JVM on this machine."
        )
        self.name = "pyspark"


class UnsupportedTransform(SparkBeamError, NotImplementedError):
    """A pipeline holds a transform that this runner cannot execute.

    Args:
        label: the user's full transform label.
        reason: what is missing.
        remedy: what to do instead.

    Attributes:
        label: of the transform.
        reason: the part of the message that says what is missing.
        remedy: the part of the message that says what to do.
    """

    def __init__(self, label: str, reason: str, remedy: str) -> None:
        super().__init__(f"Transform '{label}' cannot run on Spark: {reason} {remedy}")
        self.label = label
        self.reason = reason
        self.remedy = remedy


class PipelineFailed(SparkBeamError, RuntimeError):
    """A step of a running pipeline failed.

    Args:
        message: a few lines: the step, the user's own traceback and the remedy.
        label: see below.

    Attributes:
        label: of the failed step, or None where Spark itself failed.
    """

    def __init__(self, message: str, label: str | None = None) -> None:
        super().__init__(message)
        self.label = label


class CheckpointFailed(PipelineFailed):
    """A checkpoint file cannot be read or written; the message names it and the remedy."""


class CheckpointTaken(PipelineFailed):
    """Another driver has started over the checkpoint; this run has ended."""


class PipelineCancelled(PipelineFailed):
    """The pipeline was cancelled before it ended."""
