"""From an exception out of Spark to the few lines that a user needs."""

import re

import pyspark

from sparkbeam.damage import FULL, damage
from sparkbeam.deaths import Deaths
from sparkbeam.errors import CheckpointFailed, PipelineFailed, SparkBeamError
from sparkbeam.upstream.spark import OTHER_VERSION
from sparkbeam.wire.failure import Reports, StepReport

_CODER_FAILED = re.compile(r"the coder \S.* cannot (en|de)code ")
_PYTHON_MISSING = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")

_RUNTIME = frozenset(["apache_beam", "cloudpickle", "pandas", "pyarrow", "sparkbeam"])
"""What every worker needs, whatever the pipeline is."""


def explained(error: Exception, reports: Reports, deaths: Deaths | None = None) -> SparkBeamError:
    """The error to raise to the user for what came out of Spark.

    Args:
        error: what came out.
        reports: those of the run, which know what nobody is to see.
        deaths: knows of workers that have died.
    """
    if isinstance(error, SparkBeamError):
        return error
    text = str(error)
    report = reports.find(text)
    if report is None:
        shown = reports.redaction(text)
        damaged = damage(shown)
        died = (deaths or Deaths()).explained(shown) if damaged is None else None
        if died is not None:
            # Spark's own text knows no more, in many lines.
            return died
        failed = (
            CheckpointFailed(damaged)
            if damaged is not None
            else PipelineFailed(f"Spark failed: {_gist(shown)} {_remedy(shown)}".rstrip())
        )
        failed.__cause__ = error if shown == text else None
        return failed
    return _explained(report)


def _explained(report: StepReport) -> PipelineFailed:
    # Beam's runners end the message like that, and there are people and tests that look for it.
    lines = [f"Step '{report.label}' failed: {report.error} [while running '{report.label}']"]
    if report.trace:
        lines.append(report.trace.rstrip())
    remedy = _remedy(report.error)
    if remedy:
        lines.append(remedy)
    failed = PipelineFailed("\n".join(lines), report.label)
    failed.__cause__ = report.exception()
    return failed


def _remedy(text: str) -> str:
    missing = _PYTHON_MISSING.search(text)
    if missing and missing.group(1).partition(".")[0] in _RUNTIME:
        return (
            f"The workers' Python has no '{missing.group(1)}': install sparkbeam on every worker, "
            "and point PYSPARK_PYTHON at the Python that has it."
        )
    if missing:
        return (
            f"The workers cannot import '{missing.group(1)}': ship it with --spark_py_files, "
            "or install it on every worker."
        )
    if OTHER_VERSION.search(text):
        return (
            f"A jar of the session is for another Spark than {pyspark.__version__}: look at "
            "spark.jars and spark.jars.packages."
        )
    if FULL.search(text):
        return "Make room in the folder for temporary files, or set spark.local.dir to another one."
    if _CODER_FAILED.search(text):
        return (
            "Correct the coder, or give the output of the step another type with "
            ".with_output_types(...), for which Beam has a coder."
        )
    return ""


def _gist(text: str) -> str:
    """The lines of an error that say what happened, without the JVM's frames."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if not line.startswith(("at ", "...", "JVM stacktrace"))]
    return " ".join(telling[:3])[:600]
