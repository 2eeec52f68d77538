"""Findings of what keeps pipelines from running on Spark, made without running them."""

import re
from dataclasses import dataclass

from sparkbeam.errors import PipelineFailed, SparkBeamError, UnsupportedTransform
from sparkbeam.explain.collecting import Collector

_TOLD_BY = re.compile(r"'([^'\n]+)': ")
"""Label with which errors about the arguments of a transform begin."""

_SENTENCE = re.compile(r"(?<=[.:]) |\n+")


@dataclass(frozen=True)
class Finding:
    """An obstacle to the run of a pipeline.

    Attributes:
        transform: the label of a transform, empty for the pipeline as a whole.
        reason: the reason why it cannot run.
        remedy: the change that lets it run, empty if the reason says that.
    """

    transform: str
    reason: str
    remedy: str

    @classmethod
    def of(cls, error: BaseException) -> "Finding":
        """Return the finding that an error stands for."""
        if isinstance(error, UnsupportedTransform):
            return cls(error.label, error.reason, error.remedy)
        label = error.label if isinstance(error, PipelineFailed) else None
        text = str(error) if isinstance(error, SparkBeamError) else named(error)
        told = _TOLD_BY.match(text)
        if told is not None:
            label, text = told[1], text[told.end() :]
        reason, *remedy = _SENTENCE.split(text.strip(), maxsplit=1)
        return cls(label or "", reason, "".join(remedy))


def named(error: BaseException) -> str:
    """Return the type of an error with its message."""
    return f"{type(error).__name__}: {error}"


findings = Collector[tuple[Finding, ...]]()
"""Findings of pipelines, which are planned and not executed while somebody collects them."""
