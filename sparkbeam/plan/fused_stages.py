"""Fused stages of Beam: the ones that Spark executes, the main inputs and the readers of others."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter

from apache_beam.portability import common_urns
from apache_beam.runners.portability.fn_api_runner import translations

from sparkbeam.plan.join_payload import JOIN_URN
from sparkbeam.plan.spark_io import READ_URN, WRITE_URN
from sparkbeam.plan.urns import FLATTEN, TEST_STREAM

IMPULSE = common_urns.primitives.IMPULSE.urn
GROUP_BY_KEY = common_urns.primitives.GROUP_BY_KEY.urn
RESHUFFLE = common_urns.composites.RESHUFFLE.urn
PAIR_WITH_RESTRICTION = common_urns.sdf_components.PAIR_WITH_RESTRICTION.urn
SPLIT_RESTRICTIONS = common_urns.sdf_components.SPLIT_AND_SIZE_RESTRICTIONS.urn


SOURCE_URNS = frozenset([TEST_STREAM, READ_URN])
"""The roots of a pipeline beside Impulse."""

RUNNER_URNS = (
    frozenset([IMPULSE, FLATTEN, GROUP_BY_KEY, RESHUFFLE, WRITE_URN, JOIN_URN]) | SOURCE_URNS
)
"""The transforms that Spark executes; everything else runs in the workers.

In streaming it executes the parts of a join instead.
"""

NOTHING = "sparkbeam_nothing"
"""The PCollection that drives a stage whose root is a Flatten without inputs; nobody reads it."""


def main_input(stage: translations.Stage) -> str:
    """Return the one PCollection that drives ``stage``, or :data:`NOTHING`."""
    produced = {pcoll for t in stage.transforms for pcoll in t.outputs.values()}
    inputs = {
        pcoll
        for t in stage.transforms
        for tag, pcoll in t.inputs.items()
        if tag not in translations.side_inputs(t)
    }
    (result,) = inputs - produced or {NOTHING}
    return result


def is_runner_stage(stage: translations.Stage) -> bool:
    """Return whether Spark executes the stage, rather than a worker."""
    if len(stage.transforms) != 1:
        return False
    (transform,) = stage.transforms
    is_lone = transform.spec.urn == FLATTEN and len(transform.inputs) < 2
    return transform.spec.urn in RUNNER_URNS and not is_lone


def makers_of(stages: Iterable[translations.Stage]) -> dict[str, translations.Stage]:
    """Return the stage that puts out each PCollection."""
    return {
        pcoll: stage
        for stage in stages
        for transform in stage.transforms
        for pcoll in transform.outputs.values()
    }


def readers_of(stages: Iterable[translations.Stage]) -> dict[str, list[translations.Stage]]:
    """Return the stages that read each PCollection, once for each transform that does."""
    readers: dict[str, list[translations.Stage]] = defaultdict(list)
    for stage in stages:
        for transform in stage.transforms:
            for pcoll in transform.inputs.values():
                readers[pcoll].append(stage)
    return readers


def reaches(
    readers: Mapping[str, Iterable[translations.Stage]],
    start: translations.Stage,
    goal: translations.Stage,
) -> bool:
    """Return whether data of ``start`` reaches ``goal``, as main or side input."""
    seen: set[translations.Stage] = set()
    pending = [start]
    while pending:
        stage = pending.pop()
        if stage in seen:
            continue
        seen.add(stage)
        pending.extend(
            reader
            for transform in stage.transforms
            for pcoll in transform.outputs.values()
            for reader in readers.get(pcoll, ())
        )
    return goal in seen


def are_in_a_circle(stages: Iterable[translations.Stage]) -> bool:
    """Return whether stages wait for each other's outputs, so that none of them can be the first.

    Beam's fusion makes such a cycle of two steps that each have the other's input as a side input.
    """
    makers = makers_of(stages)
    order = TopologicalSorter[translations.Stage]()
    for stage in stages:
        inputs = {pcoll for t in stage.transforms for pcoll in t.inputs.values()}
        order.add(stage, *{makers[pcoll] for pcoll in inputs & makers.keys()} - {stage})
    try:
        order.prepare()
    except CycleError:
        return True
    return False
