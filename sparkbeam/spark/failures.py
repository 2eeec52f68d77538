"""Translation of Spark's exceptions into short messages for users."""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import pyspark

from sparkbeam.common.database_errors import is_of_database, without_values
from sparkbeam.common.display_text import beginning
from sparkbeam.common.entry_points import packages
from sparkbeam.errors import CheckpointFailed, PipelineFailed, SparkBeamError
from sparkbeam.plan.spark_io import QUERY_FUNCTION, ReadSpec
from sparkbeam.spark.checkpoint_damage import FULL, damage
from sparkbeam.spark.kafka_errors import is_of_kafka, kafka_remedy
from sparkbeam.spark.worker_deaths import Deaths
from sparkbeam.upstream.spark import (
    NO_PROGRAM,
    OTHER_PLAN,
    OTHER_PYTHON,
    OTHER_VERSION,
    QUERY_DUMP,
    WRAPPED,
)
from sparkbeam.wire.failure import FailureReports, StepReport

_CODER_FAILED = re.compile(r"the coder \S.* cannot (en|de)code ")
_FUNCTION_FAILED = re.compile(rf"Step '(?P<label>[^\n]*?)' failed: {QUERY_FUNCTION} [^\n]*")
_VALUE_FAILED = re.compile(
    r"\[USER_RAISED_EXCEPTION\] Step '(?P<label>[^\n]*?)': (?P<problem>[^\n]*?)"
    r"(?: SQLSTATE: \w+)?$",
    re.MULTILINE,
)
"""Raised by an expression of Spark's that converts the values of a source."""

_SIDE_WINDOW_FAILED = "the WindowFn of its side input gives no window"
_OWN_ERROR = re.compile(
    rf"^(?:{'|'.join(map(re.escape, packages()))})\.[\w.]+: ([^\n]+)", re.MULTILINE
)
"""An error of the runner's data sources, behind its traceback."""

_PYTHON_MISSING = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")

_OLD_PYTHON = re.compile(r"sparkbeam needs Python [^\n]*")
"""Raised when the package is imported."""

_SAME_PYTHON = (
    "Set PYSPARK_PYTHON, in the environment of the program, to the Python that runs it "
    f"({'.'.join(map(str, sys.version_info[:2]))}); install it, with sparkbeam, on every worker."
)

_OF_DATABASE = (
    "If the connection broke, run the pipeline again; if a value cannot be read, use a query that "
    "casts its column to text."
)

_FRAMES_OF_JAVA = re.compile(r"^\s+at [\w.$]+|^JVM stacktrace", re.MULTILINE)
_MOST_LINES, _MOST_CHARACTERS = 3, 600

_RUNTIME = frozenset(["apache_beam", "cloudpickle", "pandas", "pyarrow"])
"""Packages that every worker needs."""


def explained(
    error: Exception,
    reports: FailureReports,
    deaths: Deaths | None = None,
    queries: Mapping[str, str] = MappingProxyType({}),
    of_kafka: Sequence[str] = (),
    of_databases: Sequence[str] = (),
) -> SparkBeamError:
    """Translate an exception from Spark into the error to raise.

    Args:
        reports: failures of the run's steps, and its redaction.
        queries: the text of each query in SQL, by the label of its transform.
        of_kafka: labels of the transforms that read Kafka with Spark's source.
        of_databases: labels of those that read databases over JDBC.
    """
    if isinstance(error, SparkBeamError):
        return error
    text = str(error)
    report = reports.find(text)
    if report is None:
        shown = reports.redaction(text)
        of_database = is_of_database(shown)
        if of_database:
            shown = without_values(shown)
        hides = shown != text
        lacking = _lacking(shown)
        if lacking is not None:
            # The rest of the text is about the start of a worker.
            return PipelineFailed(lacking)
        damaged = damage(shown)
        died = (deaths or Deaths()).explained(shown) if damaged is None else None
        if died is not None:
            # Spark's text adds nothing.
            return died
        in_query = _FUNCTION_FAILED.search(shown)
        if in_query is not None:
            return PipelineFailed(in_query[0], in_query["label"])
        value = _VALUE_FAILED.search(shown)
        if value is not None:
            label = value["label"]
            return PipelineFailed(f"Step '{label}' failed: {value['problem']}", label)
        shown = QUERY_DUMP.sub("", shown)
        readers = of_kafka if is_of_kafka(shown) else of_databases if of_database else ()
        who, label = _failed(error, queries, readers)
        failed = (
            CheckpointFailed(damaged)
            if damaged is not None
            else PipelineFailed(f"{who} failed: {_with_remedy(_gist(shown), shown)}", label)
        )
        if not hides:
            # A traceback would show all Java frames of a cause; a debugger finds the context.
            if _FRAMES_OF_JAVA.search(text) or QUERY_DUMP.search(text):
                failed.__cause__, failed.__context__ = None, error
            else:
                failed.__cause__ = error
        return failed
    return _explained(report)


def of_reads(reads: Mapping[str, ReadSpec]) -> tuple[dict[str, str], list[str], list[str]]:
    """Return the last arguments of :func:`explained`.

    Args:
        reads: those of the pipeline, by the labels of their transforms.
    """
    return (
        {label: spec.query for label, spec in reads.items() if spec.query},
        [label for label, spec in reads.items() if spec.format.lower() == "kafka"],
        [
            label
            for label, spec in reads.items()
            if any(value.lower().startswith("jdbc:") for _, value in spec.options)
        ],
    )


def _failed(
    error: Exception, queries: Mapping[str, str], readers: Sequence[str]
) -> tuple[str, str | None]:
    """Return a name of what has failed, and the label of the transform if it is known."""
    label = _query_of(error, queries)
    if label is not None:
        return f"Query '{label}'", label
    if len(readers) == 1:
        return f"Step '{readers[0]}'", readers[0]
    if readers:
        return f"One of the steps {', '.join(map(repr, readers))}", None
    return "Spark", None


def _query_of(error: Exception, queries: Mapping[str, str]) -> str | None:
    """Return the label of the query in which an error of Spark occurred; None if it is unknown."""
    contexts = error.getQueryContext() if hasattr(error, "getQueryContext") else []
    fragments = [each.fragment() for each in contexts if each.contextType().name == "SQL"]
    return next(
        (label for label, text in queries.items() for part in fragments if part and part in text),
        None,
    )


def _explained(report: StepReport) -> PipelineFailed:
    # Beam's runners end the message like this, and people and tests look for it.
    lines = [f"Step '{report.label}' failed: {report.error} [while running '{report.label}']"]
    if report.trace:
        lines.append(report.trace.rstrip())
    remedy = _remedy(report.error)
    if remedy and remedy not in report.error:
        lines.append(remedy)
    failed = PipelineFailed("\n".join(lines), report.label)
    failed.__cause__ = report.exception()
    return failed


def _lacking(text: str) -> str | None:
    """Return what the workers' Python lacks, with the remedy; None if that is not the cause."""
    found = next(filter(_is_of_python, NO_PROGRAM.finditer(text)), None)
    if found is not None:
        return (
            f"The Python of the workers, '{found['program']}', cannot be started: "
            f"{found['why'].strip()}. {_SAME_PYTHON}"
        )
    found = OTHER_PYTHON.search(text)
    if found is not None:
        return (
            f"The workers run Python {found['worker']}, but the program runs "
            f"{found['driver']}: they cannot exchange pickled objects. {_SAME_PYTHON}"
        )
    found = _OLD_PYTHON.search(text)
    if found is not None:
        return f"The workers run another Python than the program: {found[0].strip()} {_SAME_PYTHON}"
    found = _PYTHON_MISSING.search(text)
    if found is None:
        return None
    package = found[1].partition(".")[0]
    if package in _RUNTIME | packages():
        return (
            f"The workers' Python has no '{package}': install sparkbeam on every worker, "
            "and point PYSPARK_PYTHON at the Python that has it."
        )
    return (
        f"The workers cannot import '{found[1]}': ship it with --spark_py_files, "
        "or install it on every worker."
    )


def _is_of_python(found: re.Match[str]) -> bool:
    """Return whether the program that did not start is the workers' Python."""
    program = found["program"]
    name = os.path.basename(program)
    return "python" in name or "pypy" in name or program == os.environ.get("PYSPARK_PYTHON")


def _with_remedy(gist: str, text: str) -> str:
    """Return the gist of an error as a sentence, with the remedy; the gist alone without one."""
    remedy = _remedy(text) or (_OF_DATABASE if is_of_database(text) else "")
    if not remedy:
        return gist
    return f"{gist}{'' if gist.endswith(('.', '!', '?', '…')) else '.'} {remedy}"


def _remedy(text: str) -> str:
    lacking = _lacking(text)
    if lacking is not None:
        return lacking
    if OTHER_VERSION.search(text):
        return (
            f"A jar of the session is not for Spark {pyspark.__version__}: check "
            "spark.jars and spark.jars.packages."
        )
    if OTHER_PLAN.search(text):
        return (
            "A DataFrame, view or query that the pipeline reads has other sources or other state "
            "than when the checkpoint was created: undo the change, or start with another "
            "--checkpoint_location."
        )
    of_kafka = kafka_remedy(text)
    if of_kafka:
        return of_kafka
    if FULL.search(text):
        return "Free space in the folder of temporary files, or set spark.local.dir to another one."
    if _CODER_FAILED.search(text):
        return (
            "Correct the coder, or give the output of the step a type for which Beam has a coder, "
            "with .with_output_types(...)."
        )
    if text.startswith(_SIDE_WINDOW_FAILED):
        return (
            "Put the side input into windows that depend only on the timestamp, such as "
            "beam.WindowInto(FixedWindows(60)) or beam.WindowInto(GlobalWindows())."
        )
    return ""


def _gist(text: str) -> str:
    """Return the informative lines of an error."""
    ours = _OWN_ERROR.findall(text)
    if ours:
        return beginning(ours[-1], _MOST_CHARACTERS)
    lines = [line.strip() for line in WRAPPED.sub("", text).splitlines()]
    skipped = ("at ", "...", "JVM stacktrace", "Driver stacktrace", "Traceback (most", 'File "')
    found = [line for line in lines if line.strip(": ") and not line.startswith(skipped)]
    telling: list[str] = []
    for line in found[:_MOST_LINES]:
        if not any(line in other for other in telling):
            telling.append(line)
    gist = " ".join(telling or [text.strip()])
    return beginning(gist, _MOST_CHARACTERS)
