"""What of a streaming plan its checkpoint depends on, to tell a change that state cannot follow.

Told apart is what state is written with: coders by URN, payload and components, CombineFns,
windows and triggers, the kinds of states and timers, where rows travel, how state is laid out.
What a function does may change, as long as it is not what combines; and so may steps that stand
before the first shuffle, and those that only pass elements on behind another.
"""

from collections.abc import Iterator
from typing import Any

import apache_beam
from apache_beam.coders import coders
from apache_beam.internal import pickler
from apache_beam.portability import common_urns, python_urns
from apache_beam.portability.api import beam_fn_api_pb2, beam_runner_api_pb2, schema_pb2
from apache_beam.runners.common import DoFnSignature
from apache_beam.runners.pipeline_context import PipelineContext
from apache_beam.transforms.core import DoFn
from apache_beam.transforms.window import WindowFn
from apache_beam.utils import proto_utils
from google.protobuf import wrappers_pb2

from sparkbeam.plan.identity import PYTHON, identity, shortened, steady, without_code
from sparkbeam.plan.layers import Topology
from sparkbeam.plan.model import Exchange, Layout, Source, Stage
from sparkbeam.plan.sparkio import READ_URN, ReadSpec
from sparkbeam.upstream import pickles
from sparkbeam.upstream.beam import WINDOW_FNS
from sparkbeam.version import __version__

STATE_FORMAT = 6
"""How state, offsets and feedback are laid out; a change of that needs another number."""

READABLE_FORMATS = frozenset([2, 3, 4, 5, STATE_FORMAT])
"""The formats that this version of sparkbeam goes on from."""

_KEYED = (Layout.STORED, Layout.KEYED, Layout.TIME_SORTED)
_PARDO = "beam:transform:pardo"
_COMBINES = frozenset([common_urns.combine_components.COMBINE_PER_KEY_MERGE_ACCUMULATORS.urn])
_ROW = common_urns.coders.ROW.urn

Parts = dict[str, str]
"""What a stage's state depends on, each in words."""


def fingerprint(topology: Topology, shards: int) -> dict[str, Any]:
    """The parts of a plan that state is stored by; it can be written as JSON."""
    return {
        "format": STATE_FORMAT,
        "versions": {
            "sparkbeam": __version__,
            "Beam": apache_beam.__version__,
            "Python": PYTHON,
        },
        "shards": shards,
        "sources": [_source(source) for source in topology.plan.sources],
        "stages": {
            stage.id: _Describer(stage).parts(number)
            for number, stages in enumerate(topology.layers)
            for stage in stages
            # The first layer keeps nothing, but what starts with an Impulse does so only once.
            if number or stage.exchange is Exchange.IMPULSE
        },
    }


def unreadable_format(stored: dict[str, Any]) -> str | None:
    """Why a checkpoint cannot be read, in words; None if it can."""
    found = stored.get("format", 1)
    if found in READABLE_FORMATS:
        return None
    written_by = stored.get("versions", {}).get("sparkbeam", "an older version")
    return (
        f"its state has the format {found}, written by sparkbeam {written_by}, and this version "
        f"reads {' and '.join(map(str, sorted(READABLE_FORMATS)))}"
    )


def other_versions(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Which versions are not those that have written the state, in words."""
    before, now = old["versions"], new["versions"]
    return [
        f"{name} {before[name]} is now {now[name]}" for name in now if before.get(name) != now[name]
    ]


def differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """What is different in words; empty if state of the one fits the other."""
    found = []
    if old["shards"] != new["shards"]:
        found.append(f"--shards was {old['shards']} and is {new['shards']}")
    found += _changed_sources(old["sources"], new["sources"])
    same_python = old["versions"]["Python"] == new["versions"]["Python"]
    before, now = old["stages"], new["stages"]
    labels = [{part["label"] for part in stages.values()} for stages in (before, now)]
    if labels[0] != labels[1]:
        gone, come = labels[0] - labels[1], labels[1] - labels[0]
        return [
            *found,
            *(f"step '{label}' is gone" for label in sorted(gone)),
            *(f"step '{label}' is new" for label in sorted(come)),
        ]
    for id in sorted(before.keys() | now.keys()):
        if id not in now or id not in before or before[id]["label"] != now[id]["label"]:
            found.append(f"step '{(now.get(id) or before[id])['label']}' stands elsewhere")
        else:
            found += _changed(before[id], now[id], same_python=same_python)
    return found


def _changed_sources(old: list[Parts], new: list[Parts]) -> Iterator[str]:
    labels = [source["label"] for source in old], [source["label"] for source in new]
    for label in dict.fromkeys(labels[0] + labels[1]):
        if label not in labels[1]:
            yield f"source '{label}' is gone"
        elif label not in labels[0]:
            yield f"source '{label}' is new"
    if sorted(labels[0]) == sorted(labels[1]) and labels[0] != labels[1]:
        yield f"the sources are in another order: {', '.join(labels[1])}"
    for before, now in zip(old, new, strict=False):
        if before["label"] == now["label"]:
            yield from _changed(before, now, same_python=True, what="source")


def _changed(before: Parts, now: Parts, *, same_python: bool, what: str = "step") -> Iterator[str]:
    for part in sorted(before.keys() | now.keys()):
        old, new = before.get(part), now.get(part)
        if not same_python and old is not None and new is not None:
            old, new = without_code(old), without_code(new)
        if old == new:
            continue
        name = f"{what} '{now['label']}'"
        if old is None:
            yield f"{name} has a new {part}, {new}"
        elif new is None:
            yield f"{name} has no {part} any more, which was {old}"
        else:
            yield f"{name}: its {part} was {old} and is {new}"


def _source(source: Source) -> Parts:
    parts = {
        "label": steady(source.label),
        "port": ", ".join(str(tag) for _, tag in source.outputs),
    }
    if source.urn != READ_URN:
        return parts | {"kind": source.urn}
    spec = ReadSpec.unpack(source.payload)
    parts["format"] = spec.format
    if spec.timestamp_column is not None:
        parts["partitions"] = ", ".join(spec.partition_columns) or (
            "files" if spec.by_files else "one"
        )
    return parts


class _Describer:
    """Tells what the state of a stage depends on."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        descriptor = beam_fn_api_pb2.ProcessBundleDescriptor.FromString(stage.descriptor)
        self._descriptor = descriptor
        self._source = descriptor.transforms[stage.source_id]

    def parts(self, layer: int) -> Parts:
        """All of it by what it is, in words."""
        stage = self._stage
        inputs = ", ".join(map(str, stage.inputs)) or "none"
        parts = {
            "label": steady(self._source.unique_name),
            "place": f"layer {layer}, {stage.exchange.value}, ports {inputs}",
        }
        if stage.layout in _KEYED:
            parts |= self._keyed()
        elif any(payload.restriction_coder_id for payload in self._par_dos()):
            parts |= self._reading()
        if stage.side_inputs:
            parts["elements"] = self._coder_of(self._input)
            parts |= self._side_inputs()
        return parts

    @property
    def _input(self) -> str:
        return self._stage.grouped or next(iter(self._source.outputs.values()))

    def _keyed(self) -> Parts:
        coder = self._descriptor.coders[self._descriptor.pcollections[self._input].coder_id]
        key, value = coder.component_coder_ids
        parts = {"key coder": self._coder(key)}
        grouped = self._stage.grouping is not None
        if grouped or self._stage.layout is Layout.TIME_SORTED:
            parts["value coder"] = self._coder(value)
        parts |= self._windowing(grouped=grouped)
        parts |= self._combine_fn() if grouped else {}
        return parts | self._states()

    def _windowing(self, *, grouped: bool) -> Parts:
        pcollection = self._descriptor.pcollections[self._input]
        strategy = self._descriptor.windowing_strategies[pcollection.windowing_strategy_id]
        parts = {
            "windows": _window_fn(strategy.window_fn),
            "allowed lateness": f"{strategy.allowed_lateness} ms",
        }
        if grouped:
            mode = beam_runner_api_pb2.AccumulationMode.Enum.Name(strategy.accumulation_mode)
            output = beam_runner_api_pb2.OutputTime.Enum.Name(strategy.output_time)
            parts["trigger"] = shortened(" ".join(str(strategy.trigger).split()))
            parts["accumulation mode"] = mode.lower()
            parts["timestamp combiner"] = output.lower()
        return parts

    def _combine_fn(self) -> Parts:
        for transform in self._descriptor.transforms.values():
            if transform.spec.urn in _COMBINES and self._input_of(transform) == self._out:
                payload = proto_utils.parse_Bytes(
                    transform.spec.payload, beam_runner_api_pb2.CombinePayload
                )
                return {"CombineFn": _function(payload.combine_fn)}
        return {}

    @property
    def _out(self) -> str:
        return str(next(iter(self._source.outputs.values())))

    @staticmethod
    def _input_of(transform: Any) -> str:
        return str(next(iter(transform.inputs.values()), ""))

    def _states(self) -> Parts:
        parts = {}
        for payload in self._par_dos():
            for name, state in payload.state_specs.items():
                parts[f"state '{name}'"] = self._state(state)
            for name, timer in payload.timer_family_specs.items():
                domain = beam_runner_api_pb2.TimeDomain.Enum.Name(timer.time_domain)
                parts[f"timer '{name.removeprefix('ts-')}'"] = domain.lower()
        return parts

    def _state(self, state: beam_runner_api_pb2.StateSpec) -> str:
        kind = str(state.WhichOneof("spec"))
        spec = getattr(state, kind)
        ids = {f.name: id for f, id in spec.ListFields() if f.name.endswith("coder_id")}
        found = [self._coder(id) for _, id in sorted(ids.items())]
        if kind == "combining_spec":
            found.insert(0, _function(spec.combine_fn))
        name = kind.removesuffix("_spec").replace("_", " ")
        return shortened(f"{name} of {', '.join(found)}") if found else name

    def _reading(self) -> Parts:
        """Restrictions, and what has been read of them and waits to be handed on."""
        parts = {"restrictions": self._coder_of(self._input)}
        for payload in self._par_dos():
            if payload.restriction_coder_id:
                parts["splittable DoFn"] = _splittable(payload.do_fn)
        for port in self._stage.ports:
            parts[f"output {port.tag}"] = (
                f"{self._coder_of(port.pcollection)} as {port.layout.value}"
            )
        return parts

    def _side_inputs(self) -> Parts:
        parts = {}
        for side in self._stage.side_inputs:
            transform = self._descriptor.transforms[side.transform_id]
            ports = ", ".join(map(str, side.sources))
            coder = self._coder_of(transform.inputs[side.local_name])
            parts[f"side input '{side.local_name}'"] = (
                f"{side.layout.value} of {coder}, ports {ports}"
            )
        return parts

    def _par_dos(self) -> Iterator[beam_runner_api_pb2.ParDoPayload]:
        for transform in self._descriptor.transforms.values():
            if transform.spec.urn.startswith(_PARDO) or "sdf" in transform.spec.urn:
                yield proto_utils.parse_Bytes(
                    transform.spec.payload, beam_runner_api_pb2.ParDoPayload
                )

    def _coder_of(self, pcollection: str) -> str:
        return self._coder(self._descriptor.pcollections[pcollection].coder_id)

    def _coder(self, coder_id: str) -> str:
        return shortened(self._told_coder(coder_id))

    def _told_coder(self, coder_id: str) -> str:
        coder = self._descriptor.coders[coder_id]
        parts = ", ".join(self._told_coder(part) for part in coder.component_coder_ids)
        name = _coder_name(coder.spec.urn, coder.spec.payload)
        return f"{name}({parts})" if parts else name


def _coder_name(urn: str, payload: bytes) -> str:
    if urn == python_urns.PICKLED_CODER:
        found = proto_utils.parse_Bytes(payload, wrappers_pb2.BytesValue).value
        return identity(coders.deserialize_coder(found))
    name = urn.removeprefix("beam:coder:").removesuffix(":v1")
    if urn == _ROW:
        return f"row({_fields(schema_pb2.Schema.FromString(payload))})"
    return f"{name} {shortened(payload.hex())}" if payload else name


def _fields(schema: schema_pb2.Schema) -> str:
    # The id of a schema is made up anew in each process.
    return ", ".join(f"{field.name}: {_field_type(field.type)}" for field in schema.fields)


def _field_type(kind: schema_pb2.FieldType) -> str:
    match kind.WhichOneof("type_info"):
        case "atomic_type":
            name = schema_pb2.AtomicType.Name(kind.atomic_type).lower()
        case "array_type":
            name = f"[{_field_type(kind.array_type.element_type)}]"
        case "iterable_type":
            name = f"[{_field_type(kind.iterable_type.element_type)}]"
        case "map_type":
            of = kind.map_type
            name = f"{{{_field_type(of.key_type)}: {_field_type(of.value_type)}}}"
        case "row_type":
            name = f"row({_fields(kind.row_type.schema)})"
        case "logical_type":
            logical = kind.logical_type
            name = f"{logical.urn.split(':')[-2]} as {_field_type(logical.representation)}"
        case _:
            name = "nothing"
    return f"{name}?" if kind.nullable else name


def _function(spec: beam_runner_api_pb2.FunctionSpec) -> str:
    """A CombineFn, or another function of Beam's own kinds."""
    if spec.urn == python_urns.PICKLED_COMBINE_FN:
        return identity(pickler.loads(_bytes(spec.payload)))
    return shortened(f"{spec.urn} {spec.payload.hex()}".strip())


def _window_fn(spec: beam_runner_api_pb2.FunctionSpec) -> str:
    if spec.urn == python_urns.PICKLED_WINDOWFN:
        return identity(pickler.loads(_bytes(spec.payload)))
    if spec.urn in WINDOW_FNS:
        return identity(WindowFn.from_runner_api(spec, PipelineContext()))
    return shortened(f"{spec.urn} {spec.payload.hex()}".strip())


def _splittable(spec: beam_runner_api_pb2.FunctionSpec) -> str:
    fn, *_ = pickles.loads(spec.payload)
    if not isinstance(fn, DoFn):
        return spec.urn
    signature = DoFnSignature(fn)
    parts = (signature.get_restriction_provider(), signature.get_watermark_estimator_provider())
    return ", ".join(identity(part) for part in parts if part is not None)


def _bytes(payload: bytes) -> bytes:
    found: bytes = proto_utils.parse_Bytes(payload, wrappers_pb2.BytesValue).value
    return found
