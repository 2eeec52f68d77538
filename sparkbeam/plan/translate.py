"""Translation of a Beam pipeline proto to a :class:`~sparkbeam.plan.model.Plan`.

Beam's optimizer gives fused stages and, between them, the transforms that
Spark executes. Here each worker stage gets its data operations, and each of
Spark's transforms dissolves into the way in which rows travel: a GroupByKey
into an exchange by key, a Reshuffle into a rebalancing exchange, a Flatten
into a stage that reads several ports.
"""

import copy
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from apache_beam.internal import pickler
from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.pvalue import SideInputData
from apache_beam.runners import pipeline_context
from apache_beam.runners.pipeline_utils import (
    merge_common_environments,
    merge_superset_dep_environments,
    validate_pipeline_graph,
)
from apache_beam.runners.portability.fn_api_runner import translations
from apache_beam.transforms import environments, trigger, window
from apache_beam.transforms.core import CombineFn, Windowing

from sparkbeam.errors import SparkBeamError, UnsupportedTransform
from sparkbeam.plan import (
    fused_stages,
    grouping,
    optimize,
    support,
    teststream,
    urns,
    validity,
    view_firings,
)
from sparkbeam.plan.column_flow import ColumnFlow
from sparkbeam.plan.column_steps import with_column_steps
from sparkbeam.plan.grouping import Grouping, SessionAggregator
from sparkbeam.plan.join_payload import JOIN_URN, LEFT, RIGHT, JoinSpec
from sparkbeam.plan.memo import memo
from sparkbeam.plan.model import (
    SINK_URN,
    SOURCE_URN,
    Exchange,
    Firings,
    Plan,
    Port,
    SideInput,
    Source,
    SparkJoin,
    SparkSink,
    Stage,
    in_order,
)
from sparkbeam.plan.object_identity import stable_name
from sparkbeam.plan.operator import Planner
from sparkbeam.plan.pardo_functions import par_do_payload
from sparkbeam.plan.parsed_stage import Descriptor, ParsedStage, combine_fn_of, share
from sparkbeam.plan.projection import projected
from sparkbeam.plan.row_formats import ElementRows, JoinRows, KeyedRows, RowFormat, SideInputRows
from sparkbeam.plan.row_types import pickled_row_types
from sparkbeam.plan.spark_io import READ_URN, WRITE_URN, ReadSpec, WriteSpec
from sparkbeam.plan.spilled import with_spilled_ports
from sparkbeam.plan.urns import FLATTEN
from sparkbeam.plan.view_firings import BY_TIME
from sparkbeam.upstream.beam import shows_one_element


@memo()
def translate(
    pipeline: beam_runner_api_pb2.Pipeline,
    planner: Planner,
    *,
    drain: bool = False,
    streaming: bool = False,
    sessions: SessionAggregator | None = None,
    in_columns: bool = True,
    local: bool = False,
) -> Plan:
    """Convert a pipeline into a plan.

    Args:
        pipeline: the proto; it is not changed.
        drain: truncate unbounded restrictions, so that the pipeline ends.
        streaming: the plan is for a streaming query.
        sessions: how sessions are combined in batch; None if that is for the plan to choose.
        in_columns: steps may take what is read as columns.
        local: the files that workers see are seen by this process as well.

    Raises:
        UnsupportedTransform: a transform cannot run; the message has its label.
        ConfigurationError: the proto is damaged.
    """
    try:
        validity.check(pipeline)
        fuse = partial(_fused, pipeline, drain=drain, streaming=streaming, local=local)
        context, stages = fuse()
        if fused_stages.are_in_a_circle(stages):
            context, stages = fuse(sides_apart=True)
        applied = _applied(pipeline)
        translation = _Translation(
            context.components, stages, planner, applied, streaming, sessions, in_columns
        )
        plan = translation.plan()
        if in_columns:
            flow = ColumnFlow(plan)
            plan = with_column_steps(projected(flow), flow)
        return with_spilled_ports(plan) if local and not streaming else plan
    except SparkBeamError:
        raise
    except Exception as error:
        raise validity.damaged(error) from error


def _fused(
    pipeline: beam_runner_api_pb2.Pipeline, **how: bool
) -> tuple[translations.TransformContext, list[translations.Stage]]:
    """Return the context and the stages that Beam's optimizer makes of a copy of a pipeline."""
    pipeline = copy.deepcopy(pipeline)
    support.check(pipeline)
    validate_pipeline_graph(pipeline)
    pipeline = merge_common_environments(merge_superset_dep_environments(pipeline))
    return optimize.optimize(pipeline, **how)


@dataclass
class _Draft:
    """A stage while its readers are still being found."""

    id: str
    transforms: list[beam_runner_api_pb2.PTransform]
    input: str
    ports: dict[tuple[str, RowFormat], Port] = field(default_factory=dict)

    def free_id(self, id: str) -> str:
        """Return an id for an end of the stage: the given one, or one that no step has."""
        names = {transform.unique_name for transform in self.transforms}
        while id in names:
            id += "_"
        return id


@dataclass(frozen=True)
class _Input:
    """Input of a stage: fields of :class:`~sparkbeam.plan.model.Stage`."""

    exchange: Exchange
    format: RowFormat
    inputs: tuple[int, ...] = ()
    grouped: str | None = None
    grouping: Grouping | None = None
    join: SparkJoin | None = None
    joined: tuple[str, ...] = ()


_Finished = dict[str, tuple[tuple[SideInput, ...], _Input]]
"""Side inputs and main input of each stage, by its id."""


_SPECS: Mapping[str, Any] = {READ_URN: ReadSpec, WRITE_URN: WriteSpec, JOIN_URN: JoinSpec}
"""The payloads of transforms that Spark executes, by their URNs."""


class _Translation:
    def __init__(
        self,
        components: beam_runner_api_pb2.Components,
        stages: list[translations.Stage],
        planner: Planner,
        applied: frozenset[str],
        streaming: bool,
        sessions: SessionAggregator | None,
        in_columns: bool,
    ) -> None:
        self._components = components
        self._planner = planner
        self._in_columns = in_columns
        self._streaming = streaming
        self._sessions = sessions
        self._applied = applied
        self._row_types = pickled_row_types(components)
        self._context = pipeline_context.PipelineContext(components)
        self._tags = itertools.count()
        self._drafts: list[_Draft] = []
        self._writer: dict[str, _Draft] = {}
        self._specs: dict[str, Any] = {}
        self._runner_transform: dict[str, beam_runner_api_pb2.PTransform] = {}
        self._source_tags: dict[str, int] = {}
        self._tables: dict[str, tuple[tuple[int, ...], ...]] = {}
        self._writes: list[beam_runner_api_pb2.PTransform] = []
        self._makers = view_firings.makers_in(t for stage in stages for t in stage.transforms)
        for stage in stages:
            if fused_stages.is_runner_stage(stage):
                (transform,) = stage.transforms
                if transform.spec.urn == WRITE_URN:
                    self._writes.append(transform)
                if transform.spec.urn in _SPECS:
                    spec = _SPECS[transform.spec.urn]
                    self._specs[transform.unique_name] = spec.unpack(transform.spec.payload)
                for output in transform.outputs.values():
                    self._runner_transform[output] = transform
            else:
                self._add_draft(list(stage.transforms), fused_stages.main_input(stage))

    def plan(self) -> Plan:
        # Finding the ports of a stage may add an identity stage before it, so
        # the list grows while it is walked.
        finished: _Finished = {}
        sinks = tuple(self._sinks())
        position = 0
        while position < len(self._drafts):
            draft = self._drafts[position]
            finished[draft.id] = tuple(self._side_inputs(draft)), self._connect(draft)
            position += 1
        self._aggregators = {
            tag: read.grouping.aggregator
            for _, read in finished.values()
            if read.grouping is not None
            for tag in read.inputs
        }
        self._spread = {
            tag
            for _, read in finished.values()
            if read.exchange is Exchange.REBALANCE
            for tag in read.inputs
        }
        self._merging_numbers = _merging_numbers(read for _, read in finished.values())
        self._telling = self._ports_that_tell(finished)
        described = [self._describe(draft, *finished[draft.id]) for draft in self._drafts]
        sources = tuple(self._sources())
        return Plan(tuple(in_order(described, sources)), sources, self._streaming, sinks)

    def _ports_that_tell(self, finished: "_Finished") -> frozenset[int]:
        """Return the ports whose rows identify their firing."""
        reads = {
            port.tag: (read.exchange, read.grouping is not None, read.inputs)
            for draft in self._drafts
            for read in [finished[draft.id][1]]
            for port in draft.ports.values()
        }
        views = [
            tag
            for sides, _ in finished.values()
            for side in sides
            if side.firings is Firings.MANY
            for tag in side.sources
        ]
        return view_firings.telling_ports(views, reads)

    def _sinks(self) -> Iterator[SparkSink]:
        results: dict[str, str] = {}
        for transform in self._writes:
            (written,) = transform.inputs.values()
            tags = self._ports(written, ElementRows())
            label = self._label(transform.unique_name)
            name = transform.unique_name.rpartition("/")[0] or transform.unique_name
            spec = self._specs[transform.unique_name]
            if spec.has_manifest and not self._streaming:
                raise UnsupportedTransform(
                    label,
                    "layout='manifest' is the log of a stream's micro-batches.",
                    "Omit layout in batch, or run the pipeline with --streaming.",
                )
            if spec.is_complete and self._streaming:
                other = results.setdefault(stable_name(name), name)
                if other != name:
                    raise UnsupportedTransform(
                        label,
                        f"a checkpoint cannot distinguish the complete results of '{other}' and "
                        f"'{name}', whose names differ only in a line of code.",
                        "Give the transform around one of them a label.",
                    )
            yield SparkSink(label, name, spec, tags)

    def _sources(self) -> Iterator[Source]:
        """Yield the sources of which something is read."""
        transforms = {t.unique_name: t for t in self._runner_transform.values()}
        for name, transform in sorted(transforms.items()):
            outputs = tuple(
                (output, self._source_tags[pcollection])
                for output, pcollection in sorted(transform.outputs.items())
                if pcollection in self._source_tags
            )
            if outputs and transform.spec.urn == READ_URN:
                (pcollection,) = transform.outputs.values()
                coder_id = self._components.pcollections[pcollection].coder_id
                coder = pickler.dumps(self._context.coders.get_by_id(coder_id))
                read = self._specs[name].translated(coder, in_columns=self._in_columns)
                yield Source(name, outputs, read, inputs=self._tables.get(name, ()))
            elif outputs:
                events = teststream.encoded_events(transform, self._components, self._context)
                yield Source(name, outputs, events=events)

    def _add_draft(
        self, transforms: list[beam_runner_api_pb2.PTransform], main_input: str
    ) -> _Draft:
        draft = _Draft(f"s{len(self._drafts)}", transforms, main_input)
        self._drafts.append(draft)
        for transform in transforms:
            for pcoll in transform.outputs.values():
                self._writer[pcoll] = draft
        return draft

    # How rows reach a stage.

    def _connect(self, draft: _Draft) -> _Input:
        transform = self._runner_transform.get(draft.input)
        urn = transform.spec.urn if transform is not None else None
        keyed = _keyed_format(draft.transforms)
        if urn == fused_stages.IMPULSE or draft.input == fused_stages.NOTHING:
            return _Input(Exchange.IMPULSE, ElementRows())
        if keyed is not None:
            return _Input(Exchange.BY_KEY, keyed, self._ports(draft.input, keyed))
        if urn == fused_stages.GROUP_BY_KEY:
            assert transform is not None
            (grouped,) = transform.inputs.values()
            how = grouping.decide(
                self._windowing(grouped),
                combines=self._combines(draft),
                streaming=self._streaming,
                sessions=self._sessions,
                fires=self._fires(draft),
            )
            how = replace(how, by_time=transform.spec.payload == BY_TIME)
            tags = self._ports(grouped, how.format)
            return _Input(Exchange.BY_KEY, how.format, tags, grouped, how)
        if urn == JOIN_URN:
            assert transform is not None
            return self._joined(transform)
        if urn == fused_stages.RESHUFFLE:
            assert transform is not None
            (reshuffled,) = transform.inputs.values()
            tags = self._ports(reshuffled, ElementRows())
            return _Input(Exchange.REBALANCE, ElementRows(), tags, reshuffled)
        tags = self._ports(draft.input, ElementRows())
        return _Input(Exchange.FORWARD, ElementRows(), tags)

    def _joined(self, transform: beam_runner_api_pb2.PTransform) -> _Input:
        spec = self._specs[transform.unique_name]
        joined = transform.inputs[LEFT], transform.inputs[RIGHT]
        left = self._ports(joined[0], JoinRows())
        right = self._ports(joined[1], JoinRows(keys_only=not spec.keeps_right))
        join = SparkJoin(spec, left, right)
        return _Input(Exchange.JOIN, JoinRows(), left + right, join=join, joined=joined)

    def _combines(self, draft: _Draft) -> Callable[[], CombineFn] | None:
        """Return a getter of the CombineFn of a stage that only merges its elements; else None."""
        readers = [t for t in draft.transforms if draft.input in t.inputs.values()]
        if [t.spec.urn for t in readers] != [urns.MERGE_ACCUMULATORS]:
            return None
        return partial(combine_fn_of, readers[0], self._context)

    def _fires(self, draft: _Draft) -> Windowing | None:
        """Return the windowing whose trigger a stage evaluates behind a grouping.

        None if it evaluates none.
        """
        fires = (one for one in draft.transforms if one.spec.urn == urns.FIRE)
        outputs = (output for one in fires for output in one.outputs.values())
        return next(map(self._windowing, outputs), None)

    def _side_inputs(self, draft: _Draft) -> list[SideInput]:
        found = []
        for transform in draft.transforms:
            if transform.spec.urn not in translations.PAR_DO_URNS:
                continue
            payload = par_do_payload(transform.spec.payload)
            for name, side_input in sorted(payload.side_inputs.items()):
                multimap = side_input.access_pattern.urn == common_urns.side_inputs.MULTIMAP.urn
                rows = SideInputRows(multimap)
                sources = self._ports(transform.inputs[name], rows)
                label = transform.unique_name
                read = SideInput(label, name, label, rows, sources)
                if self._streaming:
                    read = self._view(read, side_input, transform.inputs[name])
                found.append(read)
        return found

    def _view(
        self, read: SideInput, side_input: beam_runner_api_pb2.SideInput, pcollection: str
    ) -> SideInput:
        """Return a side input with the details that a streaming query needs."""
        windowing = self._windowing(pcollection)
        is_endless = isinstance(windowing.windowfn, window.GlobalWindows)
        is_default = isinstance(windowing.triggerfn, trigger.DefaultTrigger)
        mapping = SideInputData.from_runner_api(side_input, self._context).window_mapping_fn
        return replace(
            read,
            windows=bytes(pickler.dumps((mapping, windowing.windowfn.get_window_coder()))),
            early=not is_default or (is_endless and self._is_unbounded(pcollection)),
            firings=view_firings.firings_of(pcollection, self._makers, self._components),
            discards=windowing.accumulation_mode == trigger.AccumulationMode.DISCARDING,
            singleton=shows_one_element(side_input.view_fn.payload),
            lateness=windowing.allowed_lateness.micros,
        )

    def _is_unbounded(self, pcollection: str) -> bool:
        is_bounded = self._components.pcollections[pcollection].is_bounded
        return bool(is_bounded == beam_runner_api_pb2.IsBounded.UNBOUNDED)

    def _ports(self, pcollection: str, rows: RowFormat) -> tuple[int, ...]:
        """Return the tags of the ports that together hold ``pcollection``."""
        transform = self._runner_transform.get(pcollection)
        if transform is not None and transform.spec.urn == FLATTEN:
            return tuple(
                tag
                for _, source in sorted(transform.inputs.items())
                for tag in self._ports(source, rows)
            )
        from_source = transform is not None and transform.spec.urn in fused_stages.SOURCE_URNS
        if from_source and isinstance(rows, ElementRows):
            assert transform is not None
            if pcollection not in self._source_tags:
                self._source_tags[pcollection] = next(self._tags)
                # A query reads these tables.
                self._tables[transform.unique_name] = tuple(
                    self._ports(table, ElementRows())
                    for _, table in sorted(transform.inputs.items())
                )
            return (self._source_tags[pcollection],)
        if pcollection not in self._writer:
            # A stage that hands on the output of one of Spark's transforms.
            self._writer[pcollection] = self._add_draft([], pcollection)
        draft = self._writer[pcollection]
        port = draft.ports.get((pcollection, rows))
        if port is None:
            tag = next(self._tags)
            port = Port(tag, pcollection, rows, draft.free_id(f"sink_{tag}"))
            draft.ports[(pcollection, rows)] = port
        return (port.tag,)

    # What a stage consists of.

    def _describe(self, draft: _Draft, side_inputs: tuple[SideInput, ...], read: _Input) -> Stage:
        source_id = draft.free_id(f"source_{draft.id}")
        # Metrics are reported under these ids.
        transforms = {transform.unique_name: transform for transform in draft.transforms}
        is_first = read.grouped is None and bool(draft.transforms)
        begins_with = draft.transforms[0].unique_name if is_first else self._label_of(draft.input)
        applied = dict.fromkeys(self._label(name) for name in transforms)
        labels = tuple(applied) or (self._label_of(draft.input),)
        transforms[source_id] = beam_runner_api_pb2.PTransform(
            unique_name=labels[0],
            spec=beam_runner_api_pb2.FunctionSpec(urn=SOURCE_URN),
            outputs={"out": draft.input},
        )
        for port in draft.ports.values():
            transforms[port.transform_id] = beam_runner_api_pb2.PTransform(
                unique_name=f"{labels[-1]}/{port.transform_id}",
                spec=beam_runner_api_pb2.FunctionSpec(urn=SINK_URN),
                inputs={"in": port.pcollection},
            )
        descriptor = self._descriptor(draft.id, transforms, read)
        ports = (
            replace(
                port,
                firings=port.tag in self._telling,
                aggregator=self._aggregators.get(port.tag),
                spreads=port.tag in self._spread,
                takes_numbers=port.tag in self._merging_numbers,
            )
            for port in draft.ports.values()
        )
        stage = Stage(
            id=draft.id,
            labels=labels,
            descriptor=descriptor.SerializeToString(deterministic=True),
            source_id=source_id,
            **vars(read),
            ports=tuple(ports),
            side_inputs=side_inputs,
            row_types=self._row_types,
            reads_unbounded=any(
                t.spec.urn == urns.PROCESS_RESTRICTIONS
                and any(map(self._is_unbounded, t.outputs.values()))
                for t in draft.transforms
            ),
            in_columns=self._in_columns,
            is_streaming=self._streaming,
            begins_with=begins_with,
            address=draft.id,
            state_name=stable_name(begins_with),
        )
        share(stage, ParsedStage(descriptor, source_id, self._context))
        return replace(stage, operators=self._planner(stage))

    def _descriptor(
        self, id: str, transforms: dict[str, beam_runner_api_pb2.PTransform], read: _Input
    ) -> Descriptor:
        """Return the descriptor from which a worker makes the steps of a stage."""
        needed = {*([read.grouped] if read.grouped else []), *read.joined}
        for transform in transforms.values():
            needed |= {*transform.inputs.values(), *transform.outputs.values()}
        return Descriptor(
            id=id,
            transforms=transforms,
            pcollections={pcoll: self._components.pcollections[pcoll] for pcoll in needed},
            coders=dict(self._components.coders),
            windowing_strategies=dict(self._components.windowing_strategies),
            environments={
                id: _versioned(environment)
                for id, environment in self._components.environments.items()
            },
        )

    def _windowing(self, pcollection: str) -> Windowing:
        return self._context.windowing_strategies.get_by_id(
            self._components.pcollections[pcollection].windowing_strategy_id
        )

    def _label(self, unique_name: str) -> str:
        """Return the label of the user's transform that the one of this name is part of."""
        parts = unique_name.split("/")
        outer = ("/".join(parts[:count]) for count in range(1, len(parts) + 1))
        return next((name for name in outer if name in self._applied), parts[0])

    def _label_of(self, pcollection: str) -> str:
        return self._runner_transform[pcollection].unique_name


def _keyed_format(transforms: list[beam_runner_api_pb2.PTransform]) -> KeyedRows | None:
    """Return the format that a stateful stage reads, or None for a stateless one."""
    stateful = False
    for transform in transforms:
        if transform.spec.urn in translations.PAR_DO_URNS:
            payload = par_do_payload(transform.spec.payload)
            if payload.requires_time_sorted_input:
                return KeyedRows(by_time=True)
            stateful |= bool(payload.state_specs or payload.timer_family_specs)
    return KeyedRows() if stateful else None


def _applied(pipeline: beam_runner_api_pb2.Pipeline) -> frozenset[str]:
    """Return the labels of the transforms that the user applied to the pipeline itself."""
    transforms = pipeline.components.transforms
    return frozenset(
        transforms[applied].unique_name
        for root in pipeline.root_transform_ids
        for applied in transforms[root].subtransforms
    )


def _merging_numbers(every: Iterable[_Input]) -> frozenset[int]:
    """Return the ports whose readers all keep accumulators, and merge numbers, too."""
    merging, others = set[int](), set[int]()
    for read in every:
        merges = read.grouping is not None and read.grouping.merges_numbers
        (merging if merges else others).update(read.inputs)
    return frozenset(merging - others)


def _versioned(environment: beam_runner_api_pb2.Environment) -> beam_runner_api_pb2.Environment:
    """Return an environment with only its version capability, which workers compare."""
    versioned = copy.deepcopy(environment)
    del versioned.capabilities[:]
    versioned.capabilities.extend(
        capability
        for capability in environment.capabilities
        if capability.startswith(environments.SDK_VERSION_CAPABILITY_PREFIX)
    )
    return versioned
