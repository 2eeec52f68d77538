"""The part of a pipeline that one of its transforms depends on."""

from collections.abc import Iterable

from apache_beam.portability.api import beam_runner_api_pb2


def last_applied(pipeline: beam_runner_api_pb2.Pipeline) -> str:
    """Return the id of the last transform that was applied to a pipeline itself."""
    root: str = pipeline.root_transform_ids[-1]
    return str(pipeline.components.transforms[root].subtransforms[-1])


def pruned(pipeline: beam_runner_api_pb2.Pipeline, wanted: str) -> beam_runner_api_pb2.Pipeline:
    """Return the pipeline without all that a transform needs neither as elements nor as sides."""
    result = beam_runner_api_pb2.Pipeline()
    result.CopyFrom(pipeline)
    transforms = result.components.transforms
    kept = _needed(result, wanted)
    for id in reversed(_with_parts(result, result.root_transform_ids)):
        subtransforms = [part for part in transforms[id].subtransforms if part in kept]
        if subtransforms:
            kept.add(id)
        del transforms[id].subtransforms[:]
        transforms[id].subtransforms.extend(subtransforms)
    result.root_transform_ids[:] = [id for id in result.root_transform_ids if id in kept]
    for id in [id for id in transforms if id not in kept]:
        del transforms[id]
    _without_loose_ends(result)
    return result


def _needed(pipeline: beam_runner_api_pb2.Pipeline, wanted: str) -> set[str]:
    """Return the ids of the transforms without parts that lead to one, with its own."""
    transforms = pipeline.components.transforms
    producers = {
        pcollection: id
        for id, transform in transforms.items()
        if not transform.subtransforms
        for pcollection in transform.outputs.values()
        if pcollection not in transform.inputs.values()
    }
    found: set[str] = set()
    pending = [id for id in _with_parts(pipeline, [wanted]) if not transforms[id].subtransforms]
    while pending:
        id = pending.pop()
        if id not in found:
            found.add(id)
            inputs = transforms[id].inputs.values()
            pending += [producers[one] for one in inputs if one in producers]
    return found


def _with_parts(pipeline: beam_runner_api_pb2.Pipeline, ids: Iterable[str]) -> list[str]:
    """Return some transforms and all of their parts, each before its own."""
    order, pending = [], list(ids)
    while pending:
        id = pending.pop()
        order.append(id)
        pending += pipeline.components.transforms[id].subtransforms
    return order


def _without_loose_ends(pipeline: beam_runner_api_pb2.Pipeline) -> None:
    """Remove PCollections without a producer, and references to them in composites."""
    transforms = pipeline.components.transforms
    produced = {
        pcollection
        for transform in transforms.values()
        if not transform.subtransforms
        for pcollection in transform.outputs.values()
    }
    for transform in transforms.values():
        for ends in (transform.inputs, transform.outputs):
            for name in [name for name, one in ends.items() if one not in produced]:
                del ends[name]
    for id in [id for id in pipeline.components.pcollections if id not in produced]:
        del pipeline.components.pcollections[id]
