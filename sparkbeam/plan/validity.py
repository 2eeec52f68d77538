"""Validation of a pipeline proto, before it is translated.

Beam's own phases expect a proto as the SDK writes it. A proto that was damaged or put together by
hand would end in a ``KeyError`` somewhere, or in an endless loop.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator

from apache_beam.portability.api import beam_runner_api_pb2
from google.protobuf.message import DecodeError

from sparkbeam.common.arguments import shown
from sparkbeam.common.display_text import error_line, shortened
from sparkbeam.errors import ConfigurationError, SparkBeamError, UnsupportedTransform
from sparkbeam.plan.urns import PAYLOADS, own_payload

REMEDY = "The pipeline proto is damaged: create it again with the program that wrote it."


def check(pipeline: beam_runner_api_pb2.Pipeline) -> None:
    """Check that all references resolve, that none form a circle, and that payloads are whole.

    Raises:
        UnsupportedTransform: a transform is not whole; the message has its label.
        ConfigurationError: something that no single transform holds is not whole.
    """
    components = pipeline.components
    _check_coders(components)
    _check_windowings(components)
    _check_tree(pipeline)
    reachable = _reachable(pipeline)
    for transform in reachable.values():
        _check_transform(transform, components)
    _check_flow(reachable)


def damaged(error: Exception) -> SparkBeamError:
    """Return the error for one that a phase raises over a proto that seems whole."""
    return ConfigurationError(
        f"The pipeline cannot be translated: {error_line(error, 200)}. Unless one of its own "
        "coders or classes raises this, the proto is damaged: create it again with the program "
        "that wrote it."
    )


def _check_coders(components: beam_runner_api_pb2.Components) -> None:
    for coder_id in sorted(components.coders):
        for part in components.coders[coder_id].component_coder_ids:
            if part not in components.coders:
                raise _broken(f"The part {shown(part)} of the coder {shown(coder_id)} is missing")
    circle = _circle(components.coders, lambda id: components.coders[id].component_coder_ids)
    if circle is not None:
        raise _broken(f"The coder {shown(circle)} contains itself")


def _check_windowings(components: beam_runner_api_pb2.Components) -> None:
    for strategy_id in sorted(components.windowing_strategies):
        strategy = components.windowing_strategies[strategy_id]
        if strategy.window_coder_id not in components.coders:
            raise _broken(f"The windowing {shown(strategy_id)} has no window coder")
        if not strategy.window_fn.urn:
            raise _broken(f"The windowing {shown(strategy_id)} has no WindowFn")


def _check_tree(pipeline: beam_runner_api_pb2.Pipeline) -> None:
    transforms = pipeline.components.transforms
    for root in pipeline.root_transform_ids:
        if root not in transforms:
            raise _broken(f"The root transform {shown(root)} of the pipeline is missing")
    for transform_id in sorted(transforms):
        for part in transforms[transform_id].subtransforms:
            if part not in transforms:
                raise _not_whole(transforms[transform_id], f"its part {shown(part)} is missing")
    circle = _circle(transforms, lambda id: transforms[id].subtransforms)
    if circle is not None:
        raise _not_whole(transforms[circle], "it contains itself")


def _reachable(
    pipeline: beam_runner_api_pb2.Pipeline,
) -> dict[str, beam_runner_api_pb2.PTransform]:
    """Return the transforms of the pipeline by their ids, in the order of the user."""
    found: dict[str, beam_runner_api_pb2.PTransform] = {}
    pending = deque(pipeline.root_transform_ids)
    while pending:
        id = pending.popleft()
        if id not in found:
            found[id] = pipeline.components.transforms[id]
            pending += found[id].subtransforms
    return found


def _check_transform(
    transform: beam_runner_api_pb2.PTransform, components: beam_runner_api_pb2.Components
) -> None:
    for pcollection in (*transform.inputs.values(), *transform.outputs.values()):
        if pcollection not in components.pcollections:
            raise _not_whole(transform, f"its PCollection {shown(pcollection)} is missing")
        found = components.pcollections[pcollection]
        if found.coder_id not in components.coders:
            raise _not_whole(transform, f"its PCollection {shown(pcollection)} has no coder")
        if found.windowing_strategy_id not in components.windowing_strategies:
            raise _not_whole(transform, f"its PCollection {shown(pcollection)} has no windowing")
    if transform.environment_id and transform.environment_id not in components.environments:
        raise _not_whole(transform, f"its environment {shown(transform.environment_id)} is missing")
    if transform.spec.urn in PAYLOADS:
        try:
            payload = own_payload(transform.spec.urn, transform.spec.payload)
        except DecodeError:
            raise _not_whole(transform, "its payload cannot be read") from None
        for name in getattr(payload, "side_inputs", ()):
            if name not in transform.inputs:
                raise _not_whole(transform, f"its side input {shown(name)} is missing")


def _check_flow(reachable: dict[str, beam_runner_api_pb2.PTransform]) -> None:
    """Check that each PCollection has one origin and does not contribute to it."""
    leaves = {id: transform for id, transform in reachable.items() if not transform.subtransforms}
    producer: dict[str, str] = {}
    for id in sorted(leaves):
        for pcollection in leaves[id].outputs.values():
            if pcollection in leaves[id].inputs.values():
                continue  # A composite without parts hands on what it gets.
            if producer.setdefault(pcollection, id) != id:
                raise _not_whole(
                    leaves[id], f"another transform also has the output {shown(pcollection)}"
                )
    circle = _circle(
        leaves,
        lambda id: [producer[p] for p in leaves[id].inputs.values() if producer.get(p, id) != id],
    )
    if circle is not None:
        raise _not_whole(leaves[circle], "its input depends on its own output")


def _circle(ids: Iterable[str], following: Callable[[str], Iterable[str]]) -> str | None:
    """Return one of the ids that lead back to themselves; None if none does."""
    done: set[str] = set()
    for start in sorted(ids):
        path: dict[str, Iterator[str]] = {} if start in done else {start: iter(following(start))}
        while path:
            current, rest = next(reversed(path.items()))
            for after in rest:
                if after in path:
                    return after
                if after not in done:
                    path[after] = iter(following(after))
                    break
            else:
                done.add(current)
                del path[current]
    return None


def _not_whole(transform: beam_runner_api_pb2.PTransform, reason: str) -> UnsupportedTransform:
    label = shortened(transform.unique_name, 100)
    return UnsupportedTransform(label, f"{reason}.", REMEDY)


def _broken(reason: str) -> ConfigurationError:
    return ConfigurationError(f"{reason}. {REMEDY}")
