"""Beam's optimizer, set up for a runner whose workers know every coder.

Beam's own phases do the work: combiner packing and lifting, splittable DoFn
expansion, greedy fusion. Four things differ from a portable runner:

- Combines are lifted under every trigger (:mod:`sparkbeam.plan.lifting`).
- All workers are Python and can load the user's coders, so nothing needs to be
  length-prefixed to be opaque.
- Stages that read the same PCollection are fused with each other
  (:func:`fuse_siblings`), so that the PCollection is read once.
- In batch, what reads a Flatten runs in the stages that make its inputs
  (:mod:`sparkbeam.plan.unzipping`).
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar

from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.portability.fn_api_runner import translations

from sparkbeam.plan.fused_stages import (
    NOTHING,
    PAIR_WITH_RESTRICTION,
    RESHUFFLE,
    RUNNER_URNS,
    SPLIT_RESTRICTIONS,
    is_runner_stage,
    main_input,
    reaches,
    readers_of,
)
from sparkbeam.plan.join_payload import JOIN_URN
from sparkbeam.plan.lifting import lift
from sparkbeam.plan.model import CREATE_URN
from sparkbeam.plan.object_identity import steady_order
from sparkbeam.plan.pardo_functions import (
    dofn_of,
    is_create,
    is_decoding_for_create,
    own_par_do,
    set_dofn,
)
from sparkbeam.plan.queried_sources import query_sources
from sparkbeam.plan.unzipping import unzip_flattens
from sparkbeam.plan.urns import FLATTEN
from sparkbeam.plan.view_firings import always_combined, group_for_views
from sparkbeam.upstream.beam_files import divided, source_of_read, with_source
from sparkbeam.upstream.parquet import row_group_source

_Item = TypeVar("_Item")


class _PlainCoderContext(translations.TransformContext):
    """Context that leaves coders unchanged."""

    def maybe_length_prefixed_coder(self, coder_id: str) -> str:
        self.safe_coders[coder_id] = coder_id
        return coder_id


def optimize(
    pipeline: beam_runner_api_pb2.Pipeline,
    *,
    drain: bool = False,
    streaming: bool = False,
    local: bool = False,
    sides_apart: bool = False,
) -> tuple[translations.TransformContext, list[translations.Stage]]:
    """Fuse ``pipeline`` into stages.

    Args:
        pipeline: the pipeline; its components are extended in place.
        drain: expand splittable DoFns so that their restrictions are truncated.
        streaming: the stages are for a streaming query.
        local: the files that workers see are seen by this process as well.
        sides_apart: each step with side inputs begins a stage, as it always does in streaming.

    Returns:
        The context, whose components hold what the phases added, and the
        stages in a fixed order.
    """
    context = _PlainCoderContext(pipeline.components, RUNNER_URNS, is_drain=drain)
    stages: Iterable[translations.Stage] = list(
        translations.leaf_transform_stages(
            pipeline.root_transform_ids,
            pipeline.components,
            known_composites=(translations.KNOWN_COMPOSITES | RUNNER_URNS)
            - ({JOIN_URN} if streaming else set()),
        )
    )
    for phase in (
        *((always_combined, group_for_views) if streaming else ()),
        code_timers_as_main_inputs,
        translations.annotate_downstream_side_inputs,
        translations.annotate_stateful_dofns_as_roots,
        *([side_input_readers_as_roots] if streaming or sides_apart else ()),
        *(() if streaming else (query_sources, translations.pack_combiners)),
        partial(lift, streaming=streaming),
        translations.expand_sdf,
        strip_reshuffles,
        *(() if streaming else (partial(divide_reads, local=local),)),
        spread_creates,
        *(() if streaming else (strip_reshuffles_of_creates,)),
        drive_empty_flattens,
        translations.fix_flatten_coders,
        translations.greedily_fuse,
        in_fixed_order,
        translations.read_to_impulse,
        translations.extract_impulse_stages,
        translations.remove_data_plane_ops,
        fuse_siblings,
        in_fixed_order,
        *(() if streaming else (unzip_flattens, in_fixed_order)),
    ):
        stages = list(phase(list(stages), context))
    return context, list(stages)


def code_timers_as_main_inputs(
    stages: list[translations.Stage], context: translations.TransformContext
) -> list[translations.Stage]:
    """Give the timers of each ParDo with side inputs the coder that its main input needs.

    Beam's SDK takes the key and the windows of any of its inputs: of the first in a set of names.
    """
    for stage in stages:
        for transform in stage.transforms:
            if translations.side_inputs(transform):
                _code_timers(transform, context)
    return stages


def _code_timers(
    transform: beam_runner_api_pb2.PTransform, context: translations.TransformContext
) -> None:
    payload = own_par_do(transform.spec.payload)
    if not payload.timer_family_specs:
        return
    components = context.components
    (main,) = (name for tag, name in transform.inputs.items() if tag not in payload.side_inputs)
    of_main = components.pcollections[main]
    windowing = components.windowing_strategies[of_main.windowing_strategy_id]
    parts = components.coders[of_main.coder_id].component_coder_ids
    coder = beam_runner_api_pb2.Coder(
        spec=beam_runner_api_pb2.FunctionSpec(urn=common_urns.coders.TIMER.urn),
        component_coder_ids=[
            parts[0] if parts else of_main.coder_id,
            windowing.window_coder_id,
        ],
    )
    for timers in payload.timer_family_specs.values():
        timers.timer_family_coder_id = context.add_or_get_coder_id(coder)
    transform.spec.payload = payload.SerializeToString(deterministic=True)


def side_input_readers_as_roots(
    stages: list[translations.Stage], context: translations.TransformContext
) -> list[translations.Stage]:
    """Start a stage with each ParDo that has side inputs.

    In streaming an element waits for the side inputs of its window, so the
    stage's input has to be what the ParDo itself reads. In batch stages could wait for
    each other otherwise.
    """
    for stage in stages:
        if any(translations.side_inputs(transform) for transform in stage.transforms):
            stage.forced_root = True
    return stages


def strip_reshuffles(
    stages: list[translations.Stage], context: translations.TransformContext
) -> list[translations.Stage]:
    """Leave a Reshuffle in a splittable DoFn with the restrictions as its only input.

    Beam's expansion gives it the side inputs of the DoFn as well.
    """
    restrictions = {
        pcoll
        for stage in stages
        for transform in stage.transforms
        if transform.spec.urn == SPLIT_RESTRICTIONS
        for pcoll in transform.outputs.values()
    }
    for stage in stages:
        for transform in stage.transforms:
            if transform.spec.urn == RESHUFFLE and len(transform.inputs) > 1:
                for tag in set(transform.inputs):
                    if transform.inputs[tag] not in restrictions:
                        del transform.inputs[tag]
    return stages


def divide_reads(
    stages: list[translations.Stage], context: translations.TransformContext, *, local: bool
) -> list[translations.Stage]:
    """Divide Parquet files along their row groups, and ``local`` files of all formats right now.

    No job has to divide these: the step that puts out their source becomes a
    :data:`~sparkbeam.plan.model.CREATE_URN` of its parts.
    """
    readers = readers_of(stages)
    needless: list[translations.Stage] = []
    for stage in stages:
        (transform, *_) = stage.transforms
        dividing = _dividing(transform, readers)
        fn = dofn_of(transform) if dividing else None
        source = source_of_read(fn)
        by_row_groups = row_group_source(source)
        parts = divided(by_row_groups or source) if local else None
        if parts is not None:
            set_dofn(transform, parts)
            transform.spec.urn = CREATE_URN
            _put_out(transform, dividing[-1])
            needless += dividing
        elif fn is not None and by_row_groups is not None:
            set_dofn(transform, with_source(fn, by_row_groups))
    for stage in stages:
        stage.must_follow = stage.must_follow.difference(needless)
    return [stage for stage in stages if stage not in needless]


def _dividing(
    transform: beam_runner_api_pb2.PTransform, readers: dict[str, list[translations.Stage]]
) -> list[translations.Stage]:
    """Return the stages that divide a transform's output, up to the step that spreads it."""
    found: list[translations.Stage] = []
    for urn in (PAIR_WITH_RESTRICTION, SPLIT_RESTRICTIONS, RESHUFFLE):
        following = _only_reader(transform, readers)
        if following is None or following.transforms[0].spec.urn != urn:
            return []
        found.append(following)
        (transform, *_) = following.transforms
    return found


def spread_creates(
    stages: list[translations.Stage], context: translations.TransformContext
) -> list[translations.Stage]:
    """Take the Reshuffle out of each Create: its values need not be shuffled to be spread.

    The step that holds the values becomes a :data:`~sparkbeam.plan.model.CREATE_URN`,
    which runs in several tasks; each puts out its share.
    """
    readers = readers_of(stages)
    needless = []
    for stage in stages:
        (transform, *_) = stage.transforms
        following = _only_reader(transform, readers)
        if (
            following is not None
            and following.transforms[0].spec.urn == RESHUFFLE
            and is_create(transform)
            and all(len(readers[pcoll]) == 1 for pcoll in transform.inputs.values())
        ):
            transform.spec.urn = CREATE_URN
            _put_out(transform, following)
            needless.append(following)
    return [stage for stage in stages if stage not in needless]


def strip_reshuffles_of_creates(
    stages: list[translations.Stage], context: translations.TransformContext
) -> list[translations.Stage]:
    """Take out a Reshuffle behind a Create whose values are spread already."""
    readers = readers_of(stages)
    needless = []
    for stage in stages:
        (create, *_) = stage.transforms
        decoding = _only_reader(create, readers) if create.spec.urn == CREATE_URN else None
        if decoding is None or not is_decoding_for_create(decoding.transforms[0]):
            continue
        (decode, *_) = decoding.transforms
        following = _only_reader(decode, readers)
        if following is not None and following.transforms[0].spec.urn == RESHUFFLE:
            _put_out(decode, following)
            needless.append(following)
    return [stage for stage in stages if stage not in needless]


def _only_reader(
    transform: beam_runner_api_pb2.PTransform, readers: dict[str, list[translations.Stage]]
) -> translations.Stage | None:
    """Return the only stage that reads a transform's output.

    None if there are others or none.
    """
    found = [stage for pcoll in transform.outputs.values() for stage in readers[pcoll]]
    return found[0] if len(found) == 1 else None


def _put_out(transform: beam_runner_api_pb2.PTransform, last: translations.Stage) -> None:
    """Let a transform put out the output of a later stage."""
    (tag,) = transform.outputs
    (transform.outputs[tag],) = last.transforms[0].outputs.values()


def drive_empty_flattens(
    stages: list[translations.Stage], context: translations.TransformContext
) -> list[translations.Stage]:
    """Add :data:`NOTHING` to a pipeline that has a Flatten without inputs."""
    for stage in stages:
        for transform in stage.transforms:
            if transform.spec.urn == FLATTEN and not transform.inputs:
                (output,) = transform.outputs.values()
                nothing = context.components.pcollections[NOTHING]
                nothing.CopyFrom(context.components.pcollections[output])
                nothing.unique_name, nothing.coder_id = NOTHING, context.bytes_coder_id
    return stages


def in_fixed_order(
    stages: list[translations.Stage], context: translations.TransformContext
) -> list[translations.Stage]:
    """Order stages and transforms as they execute, and otherwise by label.

    Beam's fusion leaves the order to chance. The later phases keep this order, so a
    pipeline has the same plan each time.
    """
    for stage in stages:
        stage.transforms = _as_executed(stage.transforms, lambda transform: [transform])
    return _as_executed(stages, lambda stage: stage.transforms)


def _as_executed(
    items: list[_Item], transforms: Callable[[_Item], list[beam_runner_api_pb2.PTransform]]
) -> list[_Item]:
    """Return items in dependency order, and otherwise by the label of their first transform."""
    by_label = sorted(items, key=lambda item: steady_order(transforms(item)[0].unique_name))
    producer = {
        pcoll: number
        for number, item in enumerate(by_label)
        for transform in transforms(item)
        for pcoll in transform.outputs.values()
    }
    ordered: dict[int, _Item] = {}
    seen: set[int] = set()

    def visit(number: int) -> None:
        if number in seen:
            return
        seen.add(number)
        for transform in transforms(by_label[number]):
            for tag in sorted(transform.inputs):
                if transform.inputs[tag] in producer:
                    visit(producer[transform.inputs[tag]])
        ordered[number] = by_label[number]

    for number in range(len(by_label)):
        visit(number)
    return list(ordered.values())


def fuse_siblings(
    stages: list[translations.Stage], context: translations.TransformContext
) -> list[translations.Stage]:
    """Fuse worker stages that read the same PCollection, unless one needs the other.

    Stateful stages stay alone: their input is partitioned by their own key.
    """
    siblings = defaultdict(list)
    for stage in stages:
        if not is_runner_stage(stage) and not stage.forced_root:
            siblings[main_input(stage)].append(stage)

    current = list(stages)
    for group in siblings.values():
        fused = group[0]
        for sibling in group[1:]:
            readers = readers_of(current)
            independent = not (reaches(readers, fused, sibling) or reaches(readers, sibling, fused))
            if fused.environment == sibling.environment and independent:
                merged = fused.fuse(sibling, context)
                current = [s for s in current if s not in (fused, sibling)] + [merged]
                fused = merged
    return current
