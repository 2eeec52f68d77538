"""Features that this runner can execute, and the error for all others.

:data:`FEATURES` is the source of the support table in the docs.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from apache_beam.portability import common_urns, python_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.portability.fn_api_runner import translations
from apache_beam.transforms import environments

from sparkbeam.errors import UnsupportedTransform
from sparkbeam.plan.fused_stages import RUNNER_URNS
from sparkbeam.upstream.beam import TRANSFORMS

_PYTHON_ENVIRONMENTS = frozenset(
    [python_urns.EMBEDDED_PYTHON, common_urns.environments.DEFAULT.urn]
)


_OF_PYTHON = re.compile("beam:version:sdk_base:apache/beam_python")


@dataclass(frozen=True)
class Feature:
    """One row of a support table: a part of the Beam model, or a version, and what runs of it."""

    name: str
    batch: str
    streaming: str
    note: str = ""


FEATURES = (
    Feature("Impulse, Create", "yes", "yes"),
    Feature("ParDo, Map, FlatMap, Filter, Partition", "yes", "yes", "every DoFn parameter"),
    Feature("Batched DoFns (`process_batch`)", "yes", "yes"),
    Feature(
        "Side inputs: singleton, iter, list, dict, multimap",
        "yes",
        "yes",
        "windowed; in batch large ones are read from disk by key; see "
        "[streaming.md](streaming.md#side-inputs), [lookups.md](lookups.md)",
    ),
    Feature("Flatten", "yes", "yes", "no shuffle, no copy; bounded with unbounded"),
    Feature("GroupByKey, CoGroupByKey", "yes", "yes", "in batch large groups spill to disk"),
    Feature(
        "`sparkbeam.Join`",
        "yes",
        "yes",
        "Spark's own adaptive join in batch, otherwise a GroupByKey; see [joins.md](joins.md)",
    ),
    Feature("Combine, lifted; hot-key fanout; packed combiners", "yes", "yes"),
    Feature("Reshuffle, Redistribute", "yes", "yes"),
    Feature("Windows: fixed, sliding, sessions, custom, merging", "yes", "yes"),
    Feature(
        "Triggers, panes, accumulation modes",
        "yes",
        "yes",
        "in batch at the end of the input; a key of a GroupByKey with a trigger must "
        "fit into memory",
    ),
    Feature("Allowed lateness, late data, watermark holds", "no late data", "yes", "per operator"),
    Feature("State: bag, set, combining, read-modify-write, ordered list", "yes", "yes"),
    Feature(
        "`sparkbeam.state`: map, multimap, sorted multimap; `AsOfJoin`",
        "yes",
        "yes",
        "not in Beam's Python SDK, only on this runner; see [sorted-state.md](sorted-state.md)",
    ),
    Feature(
        "Timers: event time, processing time, dynamic",
        "yes",
        "yes",
        "in batch, processing-time timers fire when the key's input ends",
    ),
    Feature("`requires_time_sorted_input`", "yes", "yes"),
    Feature(
        "`requires_stable_input`",
        "yes",
        "partly",
        "a repeated micro-batch has the same input if earlier DoFns are deterministic",
    ),
    Feature("`on_window_expiration`", "no", "no", "Beam's Python SDK has no such callback"),
    Feature(
        "Splittable DoFns, bounded sources",
        "yes",
        "yes",
        "in batch residuals are processed in the same task",
    ),
    Feature(
        "Unbounded splittable DoFns, watermark estimators",
        "-",
        "yes",
        "make the pipeline a streaming one; elements are passed on once they are committed",
    ),
    Feature(
        "Bundle finalization",
        "yes",
        "yes",
        "in batch when Spark has taken the task's output, in streaming after the commit",
    ),
    Feature(
        "Metrics: counter, distribution, gauge, string set, bounded trie",
        "yes",
        "yes",
        "committed values are exact under retries",
    ),
    Feature(
        "`sparkbeam.io`: Spark's sources and sinks",
        "yes",
        "yes",
        "any data source, tables, SQL queries, DataFrames; output modes append, update and "
        "complete; see [io.md](io.md)",
    ),
    Feature(
        "Beam's files: `MatchContinuously`, `ReadAllFromText` and the like, `WriteToFiles`, "
        "`WriteToText` and the like",
        "yes",
        "yes",
        "in streaming each pane has its own files, each written once; see [files.md](files.md)",
    ),
    Feature(
        "`sparkbeam_eventhubs`: Azure Event Hubs",
        "yes",
        "yes",
        "tested with our own server, never with Azure; see [eventhubs.md](eventhubs.md)",
    ),
    Feature("Drain", "yes", "yes", "unbounded restrictions are truncated"),
    Feature("TestStream", "-", "yes", "makes the pipeline a streaming one"),
    Feature(
        "`ReadFromPubSub`, `WriteToPubSub`",
        "writes",
        "yes",
        "never tested with Google's service; see [pubsub.md](pubsub.md)",
    ),
    Feature("`ReadFromMongoDB`, `WriteToMongoDB`", "yes", "yes", "see [mongodb.md](mongodb.md)"),
    Feature(
        "`SqlTransform`, and `Sql`, `Join` and the language `sql` of Beam YAML",
        "yes",
        "yes",
        "Calcite's dialect without Java; fewer clauses in windows and streaming; see "
        "[sql.md](sql.md)",
    ),
    Feature(
        "`ReadFromKafka`, `WriteToKafka`",
        "yes",
        "yes",
        "run on Spark's Kafka source and sink; see [kafka.md](kafka.md)",
    ),
    Feature(
        "`ReadFromJdbc`, `WriteToJdbc`",
        "yes",
        "yes",
        "run on Spark's JDBC source and sink; see [jdbc.md](jdbc.md)",
    ),
    Feature(
        "`managed.Read`, `managed.Write` of Iceberg, Delta and databases",
        "yes",
        "yes",
        "a stream reads a table once, or its changes; see [iceberg.md](iceberg.md), "
        "[delta.md](delta.md), [jdbc.md](jdbc.md)",
    ),
    Feature(
        "`managed.Read`, `managed.Write` of Kafka",
        "yes",
        "yes",
        "rows in JSON, Avro or Protobuf, bytes or strings; see [kafka.md](kafka.md#rows)",
    ),
    Feature(
        "Beam YAML",
        "yes",
        "yes",
        "all Python types; Kafka, databases, Iceberg, Delta and SQL without Java; see "
        "[yaml.md](yaml.md)",
    ),
    Feature(
        "Other cross-language transforms (Beam's `ReadFromSnowflake`, …)",
        "no",
        "no",
        "the error when they are applied names what to use instead; see "
        "[io.md](io.md#beams-own-transforms)",
    ),
)


VERSIONS: tuple[Feature, ...] = (
    Feature("pyspark 4.0 to 4.3", "yes", "yes", "tests with a version: `./dev pyspark 4.2.0`"),
    Feature("pyspark 3.5", "yes", "no", "the error names the required version"),
    Feature("apache-beam 2.72 to 2.77", "yes", "yes", "tests with a version: `./dev beam 2.74.0`"),
    Feature(
        "numpy 1.23 to 2.4, pandas 1.5 to 2.3, pyarrow 14 to 25",
        "yes",
        "yes",
        "the oldest ones with pyspark 3.5 in batch; newer Spark and Beam need newer ones",
    ),
)
"""Tested versions. Those of Beam are the bounds of the dependency; no PySpark is refused."""


def check(pipeline: beam_runner_api_pb2.Pipeline) -> None:
    """Raise :class:`UnsupportedTransform` for the first transform that cannot run."""
    for problem in problems(pipeline):
        raise problem


def problems(pipeline: beam_runner_api_pb2.Pipeline) -> Iterator[UnsupportedTransform]:
    """Yield an error for each transform that cannot run."""
    components = pipeline.components
    known = (
        RUNNER_URNS
        | translations.PAR_DO_URNS
        | TRANSFORMS
        | {common_urns.deprecated_primitives.READ.urn}
        | translations.COMBINE_URNS
    )
    for stage in translations.leaf_transform_stages(
        pipeline.root_transform_ids,
        components,
        known_composites=translations.KNOWN_COMPOSITES | RUNNER_URNS,
    ):
        (transform,) = stage.transforms
        if not _is_in_python(transform, components):
            environment = components.environments[transform.environment_id]
            yield UnsupportedTransform(
                transform.unique_name,
                f"it needs the environment of another SDK ({environment.urn}).",
                "Cross-language transforms are not supported: use a transform of the Python SDK.",
            )
        elif transform.spec.urn not in known:
            yield UnsupportedTransform(
                transform.unique_name,
                *_OF_RUNNERS.get(
                    transform.spec.urn,
                    (
                        f"the primitive '{transform.spec.urn}' is unknown.",
                        "Replace it with a transform of the Python SDK.",
                    ),
                ),
            )
    unknown = set(pipeline.requirements) - _REQUIREMENTS
    if unknown:
        yield UnsupportedTransform(
            "the pipeline",
            f"it requires {', '.join(sorted(unknown))}.",
            "Remove the transform that needs it.",
        )


_OF_RUNNERS = {
    common_urns.composites.PUBSUB_READ.urn: (
        "each runner has its own source for Pub/Sub.",
        "Install sparkbeam[pubsub], and apply ReadFromPubSub to a pipeline with this runner.",
    ),
}
"""Advice on primitives that Beam leaves to its runners."""

_REQUIREMENTS = frozenset(
    requirement.urn
    for requirement in (
        common_urns.requirements.REQUIRES_STATEFUL_PROCESSING,
        common_urns.requirements.REQUIRES_BUNDLE_FINALIZATION,
        common_urns.requirements.REQUIRES_STABLE_INPUT,
        common_urns.requirements.REQUIRES_TIME_SORTED_INPUT,
        common_urns.requirements.REQUIRES_SPLITTABLE_DOFN,
    )
)


def _is_in_python(
    transform: beam_runner_api_pb2.PTransform,
    components: beam_runner_api_pb2.Components,
) -> bool:
    """Return whether a transform runs in Python, or without user code."""
    if not transform.environment_id:
        return True
    environment = components.environments[transform.environment_id]
    return any(
        each.urn in _PYTHON_ENVIRONMENTS or any(map(_OF_PYTHON.match, each.capabilities))
        for each in environments.expand_anyof_environments(environment)
    )


def table() -> str:
    """Return the support table in Markdown."""
    rows = [f"| {f.name} | {f.batch} | {f.streaming} | {f.note} |" for f in FEATURES]
    head = ["| part of the Beam model | batch | streaming | notes |", "|---|---|---|---|"]
    versions = [f"| {v.name} | {v.batch} | {v.streaming} | {v.note} |" for v in VERSIONS]
    more = ["", "## Versions", head[0].replace("part of the Beam model", "version"), head[1]]
    return "\n".join(["# What works", "", *head, *rows, *more, *versions])


if __name__ == "__main__":
    print(table())
