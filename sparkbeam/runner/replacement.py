"""Replacement of Beam's transforms, and rejection of cross-language ones.

Beam tells the runner of each transform before it expands it. Cross-language transforms are expanded
by another process, in most cases a Java one whose archive Beam downloads. Of these the outermost
one is replaced, since those of Beam start an expansion service in their expansion, some already
where they construct the next inner one.
"""

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any

from apache_beam.pipeline import Pipeline
from apache_beam.pvalue import PValue
from apache_beam.transforms import PTransform

from sparkbeam.common.entry_points import PACKAGES, REPLACEMENTS, function, registered
from sparkbeam.errors import UnsupportedTransform
from sparkbeam.options.other_runners import are_tolerated
from sparkbeam.plan.labels import applied_label, without_cells
from sparkbeam.upstream.external import before_services, is_external, is_plain, urn_of

_READ = "Read with sparkbeam.io.ReadFromSpark({}) instead: see docs/io.md."
_WRITE = "Write with sparkbeam.io.WriteToSpark({}, schema) instead: see docs/io.md."

_SOURCES: Mapping[str, str] = {
    "kafka|debezium": ('"kafka", {"kafka.bootstrap.servers": "HOST:PORT", "{topics}": "TOPIC"}'),
    "jdbc": '"jdbc", {"url": "jdbc:…", "dbtable": "TABLE"}',
    "snowflake": '"snowflake", {"sfURL": "…", "dbtable": "TABLE"}',
    "iceberg": '"iceberg", {"path": "CATALOG.TABLE"}',
    "delta": '"delta", {"path": "FOLDER"}',
    "bigquery": '"bigquery", {"table": "PROJECT.DATASET.TABLE"}',
    "mongo": '"mongodb", {"connection.uri": "…", "collection": "COLLECTION"}',
    "cassandra": '"org.apache.spark.sql.cassandra", {"keyspace": "…", "table": "TABLE"}',
}
"""Arguments of Spark's sources and sinks, by a pattern of the transform's name."""

_PACKAGES: Mapping[str, str] = {
    "kafka": "kafka",
    "jdbc|iceberg|delta|postgres|mysql|sql_?server|oracle": "tables",
    r"\bsql": "sql",
    "pubsub": "pubsub",
}
"""Packages of transforms, by a pattern of the transform's name."""

_OTHERS: Mapping[str, str] = {
    r"WriteToBigTable\b": "Leave use_cross_language out: then Beam's Python SDK writes the table.",
    r"pubsub": "Use ReadFromPubSub or WriteToPubSub of apache_beam.io: see docs/pubsub.md.",
    "spanner": "Use the transforms of apache_beam.io.gcp.experimental.spannerio.",
    "tfrecord": "Use ReadFromTFRecord or WriteToTFRecord of apache_beam.io.",
    "StorageWriteToBigQuery|bigquery_storage_write": (
        "Use apache_beam.io.WriteToBigQuery with method='FILE_LOADS'."
    ),
    r"\bsql": "Use apache_beam.transforms.sql.SqlTransform in Calcite's dialect: see docs/sql.md.",
    "generate_?sequence": (
        "Use apache_beam.transforms.periodicsequence.PeriodicSequence, or Create, instead."
    ),
    r"yaml:[\w-]+-java": "Use its form in another language, such as python: see docs/yaml.md.",
}
_OF_BEAM = re.compile(r"apache_beam\.")
_GENERAL = (
    "Use a transform of Beam's Python SDK, or sparkbeam.io.ReadFromSpark or WriteToSpark, which "
    "support any source or sink of Spark: see docs/io.md."
)


def replaced(transform: Any, input: Any) -> Any:
    """Return the transform to apply: its replacement, for one that has one.

    Raises:
        ConfigurationError: an argument of it has no meaning here.
        UnsupportedTransform: nothing replaces it; the message names the transform that the user
            applied.
    """
    pipeline = _pipeline_of(input)
    native = None if pipeline is None else _replacement(transform, pipeline)
    if pipeline is not None and native is not None:
        pipeline.transforms_stack[-1].transform = native
        return native
    if is_external(transform):
        raise _refusal(pipeline, transform)
    return transform


@functools.cache
def guard(is_ours: Callable[[Pipeline], bool]) -> None:
    """Keep Beam from starting expansion services for pipelines of this runner.

    Args:
        is_ours: returns whether a pipeline uses this runner.
    """

    def check(pipeline: Pipeline | None, constructed: Any) -> None:
        # The commands run each pipeline on this runner, also one that is made later.
        if are_tolerated() if pipeline is None else is_ours(pipeline):
            raise _refusal(pipeline, constructed)

    before_services(check)


def _replacement(transform: Any, pipeline: Pipeline) -> PTransform[Any, Any] | None:
    """Return the transform to apply instead; None if this one is applied itself."""
    for kind in type(transform).__mro__:
        make = function(REPLACEMENTS, f"{kind.__module__}.{kind.__qualname__}")
        if make is not None:
            # Loaded with the first of them alone.
            from sparkbeam.common.step_errors import errors_naming

            with errors_naming(applied_label(pipeline)):
                found: PTransform[Any, Any] | None = make(transform, pipeline)
                return found
    return None


def _pipeline_of(input: Any) -> Pipeline | None:
    if isinstance(input, Pipeline):
        return input
    if isinstance(input, PValue):
        return input.pipeline
    parts = input.values() if isinstance(input, Mapping) else input
    return next((part.pipeline for part in parts if isinstance(part, PValue)), None)


def _refusal(pipeline: Pipeline | None, transform: Any = None) -> UnsupportedTransform:
    """Return the error for the transform that a pipeline is expanding, or for a given one."""
    applied = [] if pipeline is None else pipeline.transforms_stack[1:]
    parts = [part.transform for part in applied] + [transform] * (transform is not None)
    if applied:
        label = without_cells(applied[0].full_label)
    elif transform is None:
        # The program itself asks a service for its transforms.
        label = "SchemaAwareExternalTransform.discover"
    else:
        label = type(transform).__name__
    within = f"'{without_cells(applied[-1].full_label)}' in it" if len(applied) > 1 else "it"
    of_beam = (part for part in parts if _OF_BEAM.match(_name(part)) and not is_plain(part))
    kind = f" ({_name(next(of_beam, parts[-1]))})" if parts else ""
    return UnsupportedTransform(
        label,
        f"{within}{kind} is a cross-language transform, which another process, usually Java, "
        "expands and runs.",
        _remedy(" ".join(text for part in parts for text in (_name(part), urn_of(part)))),
    )


def _name(transform: Any) -> str:
    return f"{type(transform).__module__}.{type(transform).__qualname__}"


def _remedy(text: str) -> str:
    """Return the replacement for a transform, by its names."""
    for pattern, package in _PACKAGES.items():
        if package not in registered(PACKAGES) and re.search(pattern, text, re.IGNORECASE):
            return f"Install its package: pip install 'sparkbeam[{package}]'."
    for pattern, remedy in _OTHERS.items():
        if re.search(pattern, text, re.IGNORECASE):
            return remedy
    writes = re.search("write|sink", text, re.IGNORECASE) is not None
    moves = writes or re.search("read|source", text, re.IGNORECASE) is not None
    for pattern, arguments in _SOURCES.items() if moves else ():
        if re.search(pattern, text, re.IGNORECASE):
            given = arguments.replace("{topics}", "topic" if writes else "subscribe")
            return (_WRITE if writes else _READ).replace("{}", given)
    return _GENERAL
