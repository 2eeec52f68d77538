"""Operations of each GroupByKey and each combine, in the order of the data flow."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from apache_beam.portability import common_urns

from sparkbeam.explain import describe
from sparkbeam.explain.describe import printable, wrapped
from sparkbeam.observe.figures.formats import size
from sparkbeam.observe.figures.summary import RunSummary, StageSummary
from sparkbeam.plan.grouping import Grouping, GroupStrategy
from sparkbeam.plan.layers import topology
from sparkbeam.plan.model import Exchange, Plan, Stage
from sparkbeam.plan.parsed_stage import parsed
from sparkbeam.plan.urns import EXTRACT_OUTPUTS, FIRE, MERGE_ACCUMULATORS, PRECOMBINE

_COMBINE = common_urns.combine_components.COMBINE_GROUPED_VALUES.urn

_Operation: TypeAlias = tuple[str, str, str, str]
"""An operation of an aggregation.

Its name, the Spark operator and the stage that run it, what it does, and after a run the elements
or bytes in and out.
"""

_MERGES = {
    GroupStrategy.TRIGGERS: ", as Beam's trigger driver decides",
    GroupStrategy.MERGING: ", as the WindowFn merges windows",
}


def aggregations(
    plan: Plan, summary: RunSummary | None = None, shuffles: Mapping[str, str] | None = None
) -> str:
    """Describe all aggregations in topological order; empty if there are none.

    Args:
        summary: the figures of a run; None before one.
        shuffles: descriptions of the shuffles before stages after a run, by stage id; None before
            one.
    """
    done = () if summary is None else zip(plan.stages, summary.stages, strict=True)
    figures = _Figures({stage.id: found for stage, found in done}, shuffles or {})
    edges = [edge for edge in describe.edges(plan) if not edge.side_inputs]
    hosts = {stage.id: f"MapInArrow {stage.id}" for stage in plan.stages}
    for number, stages in enumerate(topology(plan).layers if plan.streaming else ()):
        operator = "transformWithState" if number else "mapInArrow"
        hosts |= {stage.id: f"{operator} of layer {number}" for stage in stages}
    blocks = []
    for stage in plan.stages:
        if stage.grouping is None:
            continue
        read = {edge.producer.id: edge.producer for edge in edges if edge.reader is stage}
        operations = _operations(
            stage, stage.grouping, [*read.values()], hosts, figures, streaming=plan.streaming
        )
        head = wrapped("", f"{_title(stage)}: {describe.grouping(stage.grouping)}")
        blocks.append("\n".join([head, *_lines([*operations])]))
    return "\n\n".join(blocks)


def _operations(
    stage: Stage,
    how: Grouping,
    producers: Sequence[Stage],
    hosts: Mapping[str, str],
    figures: "_Figures",
    *,
    streaming: bool,
) -> Iterator[_Operation]:
    here, merges = hosts[stage.id], _transforms(stage, MERGE_ACCUMULATORS)
    # A combine before the shuffle belongs to the merge in the same composite.
    wholes = {name.rpartition("/")[0] for name in merges}
    for producer in producers:
        found = _transforms(producer, PRECOMBINE) if how.combines else []
        own = [name for name in found if name.rpartition("/")[0] in wholes]
        yield "partial", hosts[producer.id], _partial(how), figures.elements(producer, own)
    to = "to the shard of the key" if streaming else "by key, sorted by key and order"
    moved = "Coalesce" if stage.exchange is Exchange.SORT else "Exchange"
    yield "exchange", f"{moved}, Sort", to, figures.exchange(stage, producers)
    kept = "accumulators" if how.combines else "values"
    merged = f"{kept} of all tasks"
    if streaming:
        if how.strategy is not GroupStrategy.TRIGGERS:  # The driver takes elements one by one.
            yield "merge", here, merged, ""
        yield "restore", here, "the records of the current keys", ""
        merged = f"stored and new {kept}"
    merged += _MERGES.get(how.strategy, "")
    yield "merge", here, merged, figures.elements(stage, merges)
    if fires := _transforms(stage, FIRE):
        panes = "panes of each window by its count, as Beam's trigger driver decides"
        yield "fire", here, panes, figures.elements(stage, fires)
    if streaming:
        yield "save", here, "the records, and timers of pending firings", ""
    if how.combines:
        outputs = _transforms(stage, EXTRACT_OUTPUTS)
        yield "extract", here, "outputs of accumulators", figures.elements(stage, outputs)
    elif _combines_groups(stage):
        combines = _transforms(stage, _COMBINE)
        values = "all values of each pane at once"
        yield "combine", here, values, figures.elements(stage, combines)


def _partial(how: Grouping) -> str:
    if not how.combines:
        return "values gathered by key, in memory"
    if how.aggregator is not None:
        return f"elements to sessions, by the {how.aggregator.value} aggregator"
    alike = "elements of a timestamp" if how.by_stamp else "elements"
    counted = ", each with its element count" if how.counted else ""
    return f"{alike} to accumulators, in a table in memory{counted}"


@dataclass(frozen=True)
class _Figures:
    """Figures of a run; empty before one.

    Attributes:
        stages: by stage id.
        shuffles: descriptions of the shuffles before stages, by stage id.
    """

    stages: Mapping[str, StageSummary]
    shuffles: Mapping[str, str]

    def elements(self, stage: Stage, labels: Iterable[str]) -> str:
        """Describe the elements in and out of some steps of a stage, and their size."""
        wanted, done = set(labels), self.stages.get(stage.id)
        steps = [step for step in done.steps if step.label in wanted] if done is not None else []
        if not steps:
            return ""
        taken = sum(step.elements_in for step in steps)
        made = sum(step.elements_out for step in steps)
        sizes = [step.bytes_out for step in steps if step.bytes_out is not None]
        total = f" ({size(sum(sizes))})" if sizes else ""
        return f"{taken:,} in, {made:,} out{total}"

    def exchange(self, stage: Stage, producers: Iterable[Stage]) -> str:
        """Describe the bytes of the shuffle before a stage."""
        of_stage = {id: done.spark for id, done in self.stages.items()}
        read = sum(spark.read_bytes for spark in of_stage.get(stage.id, ()))
        written = sum(
            spark.written_bytes for one in producers for spark in of_stage.get(one.id, ())
        )
        return self.shuffles.get(stage.id) or (
            f"{size(written)} written, {size(read)} read" if read else ""
        )


def _title(stage: Stage) -> str:
    """Return the label of the combine, or of the step that reads the GroupByKey."""
    merges = _transforms(stage, MERGE_ACCUMULATORS) or _combines_groups(stage)
    if merges:
        return f"'{printable(merges[0].partition('/')[0])}' ({stage.id})"
    return f"Before '{printable(stage.labels[0])}' ({stage.id})"


def _combines_groups(stage: Stage) -> list[str]:
    """Return the names of the steps that combine the groups of a stage directly."""
    described = parsed(stage)
    readers = described.readers(described.main_input)
    return sorted(one.unique_name for one in readers if one.spec.urn == _COMBINE)


def _transforms(stage: Stage, urn: str) -> list[str]:
    """Return the names of a stage's transforms with a URN."""
    return sorted(one.unique_name for one in parsed(stage).with_urn(urn))


def _lines(operations: list[_Operation]) -> Iterator[str]:
    """Format the operations as a table, with the host where it changes."""
    width = max(len(host) for _, host, _, _ in operations)
    last = ""
    for name, host, does, figures in operations:
        shown = "" if host == last else host
        yield wrapped(f"  {name:9} {shown:{width}}  ", f"{does}{f': {figures}' * bool(figures)}")
        last = host
