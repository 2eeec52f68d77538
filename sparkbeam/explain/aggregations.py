"""Operations of each GroupByKey and each combine, in the order of the data flow."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from apache_beam.portability import common_urns

from sparkbeam.explain import describe
from sparkbeam.explain.describe import Edge, printable, wrapped
from sparkbeam.observe.figures.formats import size
from sparkbeam.observe.figures.summary import RunSummary, SparkStage, StageSummary, StepSummary
from sparkbeam.plan.grouping import Grouping, GroupStrategy
from sparkbeam.plan.layers import topology
from sparkbeam.plan.model import Plan, Stage
from sparkbeam.plan.parsed_stage import parsed
from sparkbeam.plan.urns import EXTRACT_OUTPUTS, FIRE, MERGE_ACCUMULATORS, PRECOMBINE

_COMBINE = common_urns.combine_components.COMBINE_GROUPED_VALUES.urn


@dataclass(frozen=True)
class Action:
    """One operation of an aggregation.

    Attributes:
        name: partial, exchange, merge, fire, restore, save, extract or combine.
        host: the Spark operator and the stage of the plan that run it.
        figures: elements or bytes in and out, after a run; empty if unknown.
    """

    name: str
    host: str
    does: str
    figures: str = ""


def aggregations(
    plan: Plan, summary: RunSummary | None = None, shuffles: Mapping[str, str] | None = None
) -> str:
    """Describe all aggregations in topological order; empty if there are none.

    Args:
        summary: the figures of a run; None before one.
        shuffles: descriptions of the shuffles before stages after a run, by stage id; None before
            one.
    """
    figures = (
        {}
        if summary is None
        else {stage.id: found for stage, found in zip(plan.stages, summary.stages, strict=True)}
    )
    edges = describe.edges(plan)
    hosts = _hosts(plan)
    blocks = []
    for stage in plan.stages:
        if stage.grouping is None:
            continue
        read = [edge for edge in edges if edge.reader is stage and not edge.side_inputs]
        actions = list(_Aggregation(plan, stage, read, hosts, figures, shuffles or {}).actions())
        head = wrapped("", f"{_title(stage)}: {describe.grouping(stage.grouping)}")
        blocks.append("\n".join([head, *_lines(actions)]))
    return "\n\n".join(blocks)


class _Aggregation:
    """The operations of one grouping stage.

    Args:
        hosts: the Spark operators by the ids of the stages that they run.
        figures: the figures of stages after a run, by stage id.
        shuffles: descriptions of the shuffles before stages, by stage id.
    """

    def __init__(
        self,
        plan: Plan,
        stage: Stage,
        read: Iterable[Edge],
        hosts: Mapping[str, str],
        figures: Mapping[str, StageSummary],
        shuffles: Mapping[str, str],
    ) -> None:
        assert stage.grouping is not None
        self._streaming = plan.streaming
        self._stage = stage
        self._grouping: Grouping = stage.grouping
        self._producers = list({edge.producer.id: edge.producer for edge in read}.values())
        self._hosts = hosts
        self._figures = figures
        self._shuffles = shuffles
        self._kept = "accumulators" if self._grouping.combines else "values"

    def actions(self) -> Iterator[Action]:
        for producer in self._producers:
            yield self._partial(producer)
        yield self._exchange()
        here = self._hosts[self._stage.id]
        is_driven = self._grouping.strategy is GroupStrategy.TRIGGERS
        merges = f"{self._kept} of all tasks"
        if self._streaming:
            if not is_driven:  # The trigger driver takes elements one by one.
                yield Action("merge", here, merges)
            yield Action("restore", here, "the records of the current keys")
            merges = f"stored and new {self._kept}"
        if is_driven:
            merges += ", as Beam's trigger driver decides"
        elif self._grouping.strategy is GroupStrategy.MERGING:
            merges += ", as the WindowFn merges windows"
        yield Action("merge", here, merges, self._of_step(MERGE_ACCUMULATORS))
        if labels := _transforms(self._stage, FIRE):
            fires = "panes of each window by its count, as Beam's trigger driver decides"
            yield Action("fire", here, fires, self._elements(self._stage, labels))
        if self._streaming:
            yield Action("save", here, "the records, and timers of pending firings")
        if self._grouping.combines:
            yield Action("extract", here, "outputs of accumulators", self._of_step(EXTRACT_OUTPUTS))
        elif _combines_groups(self._stage):
            yield Action(
                "combine", here, "all values of each pane at once", self._of_step(_COMBINE)
            )

    def _partial(self, producer: Stage) -> Action:
        how = self._grouping
        host = self._hosts[producer.id]
        if not how.combines:
            return Action("partial", host, "values gathered by key, in memory")
        alike = "elements of a timestamp" if how.by_stamp else "elements"
        counted = ", each with its element count" if how.counted else ""
        what = f"{alike} to accumulators, in a table in memory{counted}"
        if how.aggregator is not None:
            what = f"elements to sessions, by the {how.aggregator.value} aggregator"
        return Action("partial", host, what, self._elements(producer, self._partials(producer)))

    def _partials(self, producer: Stage) -> list[str]:
        """Return the labels of partial combines in a stage that belong to this aggregation."""
        prefixes = {
            name.rpartition("/")[0] for name in _transforms(self._stage, MERGE_ACCUMULATORS)
        }
        found = _transforms(producer, PRECOMBINE)
        return [name for name in found if name.rpartition("/")[0] in prefixes]

    def _exchange(self) -> Action:
        written = sum(s.written_bytes for p in self._producers for s in self._spark(p))
        read = sum(spark.read_bytes for spark in self._spark(self._stage))
        figures = self._shuffles.get(self._stage.id, "")
        if not figures and read:
            figures = f"{size(written)} written, {size(read)} read"
        if self._streaming:
            return Action("exchange", "Exchange, Sort", "to the shard of the key", figures)
        return Action("exchange", "Exchange, Sort", "by key, sorted by key and order", figures)

    def _spark(self, stage: Stage) -> Iterable[SparkStage]:
        return self._figures[stage.id].spark if stage.id in self._figures else ()

    def _of_step(self, urn: str) -> str:
        return self._elements(self._stage, _transforms(self._stage, urn))

    def _elements(self, stage: Stage, labels: Iterable[str]) -> str:
        """Describe the elements in and out of some steps of a stage, and their size."""
        if stage.id not in self._figures:
            return ""
        wanted = set(labels)
        steps = [step for step in self._figures[stage.id].steps if step.label in wanted]
        return _in_and_out(steps) if steps else ""


def _in_and_out(steps: list[StepSummary]) -> str:
    taken = sum(step.elements_in for step in steps)
    made = sum(step.elements_out for step in steps)
    sizes = [step.bytes_out for step in steps if step.bytes_out is not None]
    total = f" ({size(sum(sizes))})" if sizes else ""
    return f"{taken:,} in, {made:,} out{total}"


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


def _hosts(plan: Plan) -> dict[str, str]:
    """Return the Spark operator that runs each stage."""
    if not plan.streaming:
        return {stage.id: f"MapInArrow {stage.id}" for stage in plan.stages}
    layers = topology(plan)
    return {
        stage.id: f"{'transformWithState' if number else 'mapInArrow'} of layer {number}"
        for number, stages in enumerate(layers.layers)
        for stage in stages
    }


def _lines(actions: list[Action]) -> Iterator[str]:
    """Format the operations as a table, with the host where it changes."""
    width = max(len(action.host) for action in actions)
    last = ""
    for action in actions:
        host = "" if action.host == last else action.host
        figures = f": {action.figures}" if action.figures else ""
        yield wrapped(f"  {action.name:9} {host:{width}}  ", f"{action.does}{figures}")
        last = action.host
