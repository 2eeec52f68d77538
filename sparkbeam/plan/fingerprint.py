"""What of a streaming plan its checkpoint depends on, to tell a change that state cannot follow."""

from collections.abc import Iterator
from typing import Any

from apache_beam.portability.api import beam_fn_api_pb2, beam_runner_api_pb2
from apache_beam.utils import proto_utils

from sparkbeam.plan.layers import Topology
from sparkbeam.plan.model import Layout, Stage

_KEYED = (Layout.STORED, Layout.KEYED, Layout.TIME_SORTED)


def fingerprint(topology: Topology, shards: int) -> dict[str, Any]:
    """The parts of a plan that state is stored by; it can be written as JSON."""
    return {
        "shards": shards,
        "stages": {
            stage.id: _stage(stage, number)
            for number, stages in enumerate(topology.layers)
            for stage in stages
        },
    }


def differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """What is different in words; empty if state of the one fits the other."""
    found = []
    if old["shards"] != new["shards"]:
        found.append(f"--shards was {old['shards']} and is {new['shards']}")
    before, now = old["stages"], new["stages"]
    for id in sorted(before.keys() | now.keys()):
        if id not in now:
            found.append(f"step '{before[id]['label']}' is gone")
        elif id not in before:
            found.append(f"step '{now[id]['label']}' is new")
        else:
            found += _changed(before[id], now[id])
    return found


def _changed(before: dict[str, Any], now: dict[str, Any]) -> Iterator[str]:
    if before["label"] != now["label"]:
        yield f"step '{now['label']}' stands where '{before['label']}' was"
        return
    for part in sorted(before.keys() | now.keys()):
        if before.get(part) != now.get(part):
            yield (
                f"step '{now['label']}': its {part} was {before.get(part)} and is {now.get(part)}"
            )


def _stage(stage: Stage, layer: int) -> dict[str, Any]:
    descriptor = beam_fn_api_pb2.ProcessBundleDescriptor.FromString(stage.descriptor)
    content: dict[str, Any] = {
        "label": descriptor.transforms[stage.source_id].unique_name,
        "place": f"layer {layer}, read {stage.exchange.value}",
    }
    if stage.layout in _KEYED:
        source = descriptor.transforms[stage.source_id]
        pcollection = stage.grouped or next(iter(source.outputs.values()))
        found = descriptor.pcollections[pcollection]
        content["coder"] = _coder(descriptor, found.coder_id)
        content["windowing"] = _windowing(
            descriptor.windowing_strategies[found.windowing_strategy_id]
        )
        content["states"] = dict(_states(descriptor))
    return content


def _coder(descriptor: beam_fn_api_pb2.ProcessBundleDescriptor, coder_id: str) -> str:
    coder = descriptor.coders[coder_id]
    parts = ", ".join(_coder(descriptor, part) for part in coder.component_coder_ids)
    name = coder.spec.urn.removeprefix("beam:coder:")
    return f"{name}({parts})" if parts else name


def _windowing(strategy: beam_runner_api_pb2.WindowingStrategy) -> str:
    trigger = " ".join(str(strategy.trigger).split())
    window = strategy.window_fn
    portable = window.urn.startswith("beam:window_fn:")
    return (
        f"{window.urn} {window.payload.hex() if portable else ''}, trigger {trigger}, "
        f"mode {strategy.accumulation_mode}, lateness {strategy.allowed_lateness} ms"
    )


def _states(
    descriptor: beam_fn_api_pb2.ProcessBundleDescriptor,
) -> Iterator[tuple[str, str]]:
    for transform in descriptor.transforms.values():
        if not transform.spec.urn.startswith("beam:transform:pardo"):
            continue
        payload = proto_utils.parse_Bytes(transform.spec.payload, beam_runner_api_pb2.ParDoPayload)
        for name, state in sorted(payload.state_specs.items()):
            yield f"{transform.unique_name}/{name}", str(state.WhichOneof("spec"))
        for name, timer in sorted(payload.timer_family_specs.items()):
            yield f"{transform.unique_name}/{name}", f"timer {timer.time_domain}"
