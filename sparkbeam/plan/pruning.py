"""The part of a pipeline that one of its transforms depends on."""

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
    for id in _children_first(result):
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
    pending = _leaves(pipeline, wanted)
    while pending:
        id = pending.pop()
        if id not in found:
            found.add(id)
            inputs = transforms[id].inputs.values()
            pending += [producers[one] for one in inputs if one in producers]
    return found


def _leaves(pipeline: beam_runner_api_pb2.Pipeline, root: str) -> list[str]:
    pending, found = [root], []
    while pending:
        id = pending.pop()
        parts = pipeline.components.transforms[id].subtransforms
        pending += parts
        if not parts:
            found.append(id)
    return found


def _children_first(pipeline: beam_runner_api_pb2.Pipeline) -> list[str]:
    order, pending = [], list(pipeline.root_transform_ids)
    while pending:
        id = pending.pop()
        order.append(id)
        pending += pipeline.components.transforms[id].subtransforms
    return order[::-1]


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
