"""Fingerprint of a streaming plan: the parts that its checkpoint depends on.

A change of these parts is a change that state cannot follow. The fingerprint has everything that
state is written with: coders by URN, payload and components, CombineFns, windows and triggers, the
kinds of states and timers, the routes of rows, the layout of state. The code of a function may
change, unless the function combines. Steps before the first shuffle may change too, and so may
steps behind another shuffle that only pass elements on.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import apache_beam
from apache_beam.coders import coders
from apache_beam.internal import pickler
from apache_beam.portability import common_urns, python_urns
from apache_beam.portability.api import beam_runner_api_pb2, schema_pb2
from apache_beam.runners.common import DoFnSignature
from apache_beam.runners.pipeline_context import PipelineContext
from apache_beam.transforms.core import DoFn
from apache_beam.transforms.window import WindowFn
from apache_beam.utils import proto_utils
from google.protobuf import wrappers_pb2

from sparkbeam.plan.addresses import (
    Addresses,
    is_first,
    is_output,
    keeps_state,
    matching_stages,
    matching_tags,
    renamed,
)
from sparkbeam.plan.layers import Topology
from sparkbeam.plan.model import Exchange, Plan, Port, Source, SparkSink, Stage
from sparkbeam.plan.object_identity import (
    PYTHON,
    identity,
    shortened,
    stable_name,
    without_code,
)
from sparkbeam.plan.pardo_functions import par_do_payload
from sparkbeam.plan.parsed_stage import parsed
from sparkbeam.plan.row_formats import KeyedRows
from sparkbeam.plan.row_types import schema_in
from sparkbeam.plan.urns import COMBINE_PER_KEY, MERGE_ACCUMULATORS, TEST_STREAM, own_payload
from sparkbeam.upstream.beam import WINDOW_FNS
from sparkbeam.version import __version__

STATE_FORMAT = 9
"""Version of the layout of state, offsets and feedback; another layout needs another number."""

_PARDO = "beam:transform:pardo"
_ROW = common_urns.coders.ROW.urn

Parts = dict[str, str]
"""Dependencies of a stage's state, each as a description."""


def fingerprint(topology: Topology, shards: int) -> dict[str, Any]:
    """Return the parts of a plan that state is stored by; it can be written as JSON."""
    return {
        "format": STATE_FORMAT,
        "versions": {
            "sparkbeam": __version__,
            "Beam": apache_beam.__version__,
            "Python": PYTHON,
        },
        "shards": shards,
        "layers": topology.depth,
        "sources": [_source(source) for source in topology.plan.sources],
        "ports": _ports(topology.plan),
        "results": _results(topology.plan.sinks),
        "stages": {
            stage.id: _Describer(stage).parts(number)
            for number, stages in enumerate(topology.layers)
            for stage in stages
        },
    }


def to_store(topology: Topology, shards: int, addresses: Addresses) -> dict[str, Any]:
    """Return the fingerprint of a plan that has its addresses, by which it is found again."""
    now = fingerprint(topology, shards)
    by_address = {addresses.stages[id]: parts for id, parts in now["stages"].items()}
    ports = {
        tag: port | {"to": renamed(port["to"], addresses.stages)}
        for tag, port in now["ports"].items()
    }
    following = addresses.next_stage, addresses.next_tag
    return now | {"stages": by_address, "ports": ports, "next": following}


def _ports(plan: Plan) -> dict[str, dict[str, Any]]:
    """Return the writer and the readers of each port, by its tag.

    Readers are stages by their id, and which side inputs of them.
    """
    found: dict[str, dict[str, Any]] = {
        str(port.tag): {"from": writer, "to": []}
        for stage in plan.stages
        for port, writer in _writers(stage)
    }
    for stage in plan.stages:
        for tag in stage.inputs:
            _add_reader(found, tag, stage.id)
        for side in stage.side_inputs:
            for tag in side.sources:
                _add_reader(found, tag, f"{stage.id} {side.local_name}")
    for sink in plan.sinks:
        for tag in sink.inputs:
            _add_reader(found, tag, f"sink {stable_name(sink.name)}")
    return found


def _results(sinks: Sequence[SparkSink]) -> dict[str, Parts]:
    """Return the dependencies of the results of sinks that deliver them whole, by name."""
    specs = [(stable_name(sink.name), sink.write) for sink in sinks]
    return {
        name: {"label": name, "key": ", ".join(spec.key), "schema": spec.schema or ""}
        for name, spec in specs
        if spec.is_complete
    }


def _add_reader(ports: dict[str, dict[str, Any]], tag: int, reader: str) -> None:
    if str(tag) in ports:  # Else it is that of a source.
        ports[str(tag)]["to"].append(reader)


def _writers(stage: Stage) -> Iterator[tuple[Port, str]]:
    """Return the ports of a stage with the output of which step each is."""
    outputs = {
        pcollection: f"{stable_name(transform.unique_name)} {name}"
        for _, transform in sorted(parsed(stage).transforms.items())
        for name, pcollection in transform.outputs.items()
    }
    return ((port, outputs.get(port.pcollection, "")) for port in stage.ports)


def _reads(stage: Stage) -> str:
    """Return the name that tells a stage from others, whatever other steps it has."""
    if stage.side_inputs and stage.exchange is Exchange.FORWARD:
        return ", ".join(dict.fromkeys(stable_name(side.label) for side in stage.side_inputs))
    return stable_name(stage.begins_with)


def unreadable_format(stored: dict[str, Any]) -> str | None:
    """Return the reason why a checkpoint cannot be read; None if it can."""
    found = stored.get("format", 1)
    if found == STATE_FORMAT:
        return None
    written_by = stored.get("versions", {}).get("sparkbeam", "an older version")
    return (
        f"its state has the format {found}, written by sparkbeam {written_by}, but this version "
        f"reads the format {STATE_FORMAT}"
    )


def other_versions(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Return descriptions of the versions that differ from those that have written the state."""
    before, now = old["versions"], new["versions"]
    return [
        f"{name} {before[name]} is now {now[name]}" for name in now if before.get(name) != now[name]
    ]


def differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Return the parts of one plan's state that the other does not allow; empty if it fits."""
    found = []
    if old["shards"] != new["shards"]:
        found.append(f"--shards was {old['shards']} and is {new['shards']}")
    found += _changed_sources(old["sources"], new["sources"])
    found += _changed_results(old, new["results"])
    before, now = old["stages"], new["stages"]
    pairs = matching_stages(before, now)
    gone = [parts for at, parts in before.items() if at not in pairs.values()]
    come = [parts for id, parts in now.items() if id not in pairs]
    moved = [
        *(f"step '{label}' is gone" for label in _keeping(gone)),
        *(f"step '{label}' is new" for label in _keeping(come)),
    ]
    if moved:
        return [*found, *moved]
    found += _other_depth(old["layers"], new, come)
    tags = matching_tags(old, new)
    same_python = old["versions"]["Python"] == new["versions"]["Python"]
    for id, at in sorted(pairs.items(), key=lambda pair: pair[1]):
        if keeps_state(now[id]):
            parts = _with_stored_tags(now[id], tags)
            found += _moved(before[at], parts)
            found += _outputs_gone(before[at], parts, old)
            found += _changed(before[at], parts, same_python=same_python)
    return found


def _keeping(stages: list[Parts]) -> list[str]:
    return sorted({parts["label"] for parts in stages if keeps_state(parts)})


def _other_depth(before: int, new: dict[str, Any], come: list[Parts]) -> list[str]:
    """Say that more or fewer shuffles follow each other than Spark's state has operators for."""
    if before == new["layers"]:
        return []
    behind = (parts for parts in come if not is_first(parts))
    added = ", ".join(sorted({f"'{parts['label']}'" for parts in behind}))
    cause = f" (step {added} is new)" if added else ""
    return [f"the count of consecutive shuffles was {before - 1} and is {new['layers'] - 1}{cause}"]


def _with_stored_tags(parts: Parts, tags: dict[int, int]) -> Parts:
    """Return the parts of a stage with its outputs under the tags that a checkpoint has."""
    found = {name: text for name, text in parts.items() if not is_output(name)}
    outputs = {int(name.split()[1]): text for name, text in parts.items() if is_output(name)}
    return found | {f"output {tags[tag]}": text for tag, text in outputs.items() if tag in tags}


def _moved(before: Parts, now: Parts) -> list[str]:
    if before["place"] == now["place"]:
        return []
    was, is_now = (parts["place"].split(", ")[0].removeprefix("layer ") for parts in (before, now))
    name = f"step '{now['label']}'"
    if was == is_now:
        return [f"{name} reads a different kind of shuffle"]
    return [f"{name} was after {was} consecutive shuffles and is after {is_now} now"]


def _outputs_gone(before: Parts, now: Parts, old: dict[str, Any]) -> Iterator[str]:
    for name in before:
        if is_output(name) and name not in now:
            port = old["ports"].get(name.split()[1], {"to": ()})
            readers = (id.split()[0] for id in port["to"])
            labels = sorted(
                {f"'{old['stages'][id]['label']}'" for id in readers if id in old["stages"]}
            )
            for_whom = f" for step {', '.join(labels)}" if labels else ""
            yield f"the data that step '{now['label']}' has read{for_whom} would have no reader"


def _changed_sources(old: list[Parts], new: list[Parts]) -> Iterator[str]:
    labels = [source["label"] for source in old], [source["label"] for source in new]
    for label in dict.fromkeys(labels[0] + labels[1]):
        if label not in labels[1]:
            yield f"source '{label}' is gone"
        elif label not in labels[0]:
            yield f"source '{label}' is new"
    if sorted(labels[0]) == sorted(labels[1]) and labels[0] != labels[1]:
        yield f"the sources are in a different order: {', '.join(labels[1])}"
    for before, now in zip(old, new, strict=False):
        if before["label"] == now["label"]:
            yield from _changed(before, now, same_python=True, what="source")


def _changed_results(stored: dict[str, Any], new: dict[str, Parts]) -> Iterator[str]:
    old: dict[str, Parts] = stored["results"]
    readers = {reader for port in stored["ports"].values() for reader in port["to"]}
    come = new.keys() - old.keys()
    for label in sorted(come):
        if f"sink {label}" in readers:
            yield f"sink '{label}' did not have output_mode='complete'"
    if come:  # It may be another label of the same.
        for label in sorted(old.keys() - new.keys()):
            yield f"sink '{label}' with output_mode='complete' is gone"
    for label in sorted(old.keys() & new.keys()):
        yield from _changed(old[label], new[label], same_python=True, what="sink")


_ADDRESSES = frozenset(["label", "reads", "place", "port", "state name", "steps"])
"""Parts that identify the place of state, and not its format."""


def _changed(before: Parts, now: Parts, *, same_python: bool, what: str = "step") -> Iterator[str]:
    for part in sorted((before.keys() | now.keys()) - _ADDRESSES):
        old, new = before.get(part), now.get(part)
        if is_output(part) and (old is None or new is None):
            continue
        if not same_python:
            old, new = (text and without_code(text) for text in (old, new))
        if old == new:
            continue
        name = f"{what} '{now['label']}'"
        if old is None:
            yield f"{name} has a new {part}, {new}"
        elif new is None:
            yield f"{name} no longer has its {part}, which was {old}"
        else:
            told = "output" if is_output(part) else part
            yield f"{name}: its {told} was {old} and is {new}"


def _source(source: Source) -> Parts:
    parts = {
        "label": stable_name(source.label),
        "port": ", ".join(str(tag) for _, tag in source.outputs),
        "outputs": ", ".join(name for name, _ in source.outputs),
    }
    spec = source.read
    if spec is None:
        return parts | {"kind": TEST_STREAM}
    parts["format"] = spec.kind
    if spec.timestamp_column is not None:
        parts["partitions"] = ", ".join(spec.partition_columns) or (
            "files" if spec.by_files else "one"
        )
    return parts


class _Describer:
    """Description of the dependencies of a stage's state."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        described = parsed(stage)
        self._descriptor = described.proto
        self._source = described.source
        self._out = described.main_input

    def parts(self, layer: int) -> Parts:
        """Return all dependencies of the stage's state by kind, in words."""
        stage = self._stage
        parts = {
            "label": stable_name(self._source.unique_name),
            "reads": _reads(stage),
            "state name": stage.state_name,
            "place": f"layer {layer}, {stage.exchange.value}",
        }
        if not layer:
            parts["steps"] = "\n".join(map(stable_name, stage.labels))
            # The first layer keeps nothing, but what starts with an Impulse does so only once.
            if stage.exchange is not Exchange.IMPULSE:
                return parts
        if isinstance(stage.format, KeyedRows):
            parts |= self._keyed()
        elif any(payload.restriction_coder_id for payload in self._par_dos()):
            parts |= self._reading()
        if stage.side_inputs:
            parts["elements"] = self._coder_of(self._input)
            parts |= self._side_inputs()
        return parts

    @property
    def _input(self) -> str:
        return self._stage.grouped or self._out

    def _keyed(self) -> Parts:
        coder = self._descriptor.coders[self._descriptor.pcollections[self._input].coder_id]
        key, value = coder.component_coder_ids
        parts = {"key coder": self._coder(key)}
        grouped = self._stage.grouping is not None
        if grouped or self._stage.format.by_time:
            parts["value coder"] = self._coder(self._stored(value))
        parts |= self._windowing(grouped=grouped)
        parts |= self._combine_fn() if grouped else {}
        return parts | self._states()

    def _stored(self, value: str) -> str:
        """Return the coder of stored values, without the counts of accumulators."""
        how = self._stage.grouping
        if how is None or not how.counted:
            return value
        _, accumulator = self._descriptor.coders[value].component_coder_ids
        return str(accumulator)

    def _windowing(self, *, grouped: bool) -> Parts:
        pcollection = self._descriptor.pcollections[self._input]
        strategy = self._descriptor.windowing_strategies[pcollection.windowing_strategy_id]
        parts = {
            "windows": _function(strategy.window_fn),
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
            reads = self._out in transform.inputs.values()
            if reads and transform.spec.urn == MERGE_ACCUMULATORS:
                payload = own_payload(COMBINE_PER_KEY, transform.spec.payload)
                return {"CombineFn": _function(payload.combine_fn)}
        return {}

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
        """Return restrictions, and the rows read from them that wait to be handed on."""
        parts = {"restrictions": self._coder_of(self._input)}
        for payload in self._par_dos():
            if payload.restriction_coder_id:
                parts["splittable DoFn"] = _splittable(payload.do_fn)
        for port in self._stage.ports:
            parts[f"output {port.tag}"] = (
                f"{self._coder_of(port.pcollection)} as {port.format.name}"
            )
        return parts

    def _side_inputs(self) -> Parts:
        parts = {}
        for side in self._stage.side_inputs:
            transform = self._descriptor.transforms[side.transform_id]
            coder = self._coder_of(transform.inputs[side.local_name])
            parts[f"side input '{side.local_name}'"] = f"{side.format.name} of {coder}"
        return parts

    def _par_dos(self) -> Iterator[beam_runner_api_pb2.ParDoPayload]:
        for transform in self._descriptor.transforms.values():
            if transform.spec.urn.startswith(_PARDO) or "sdf" in transform.spec.urn:
                yield par_do_payload(transform.spec.payload)

    def _coder_of(self, pcollection: str) -> str:
        return self._coder(self._descriptor.pcollections[pcollection].coder_id)

    def _coder(self, coder_id: str) -> str:
        return shortened(self._describe_coder(coder_id))

    def _describe_coder(self, coder_id: str) -> str:
        coder = self._descriptor.coders[coder_id]
        parts = ", ".join(self._describe_coder(part) for part in coder.component_coder_ids)
        name = _coder_name(coder.spec.urn, coder.spec.payload)
        return f"{name}({parts})" if parts else name


def _coder_name(urn: str, payload: bytes) -> str:
    if urn == python_urns.PICKLED_CODER:
        return identity(coders.deserialize_coder(_bytes(payload)))
    name = urn.removeprefix("beam:coder:").removesuffix(":v1")
    if urn == _ROW:
        return f"row({_fields(schema_in(payload))})"
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
    """Return a CombineFn or a WindowFn."""
    if spec.urn in (python_urns.PICKLED_COMBINE_FN, python_urns.PICKLED_WINDOWFN):
        return identity(pickler.loads(_bytes(spec.payload)))
    if spec.urn in WINDOW_FNS:
        return identity(WindowFn.from_runner_api(spec, PipelineContext()))
    return shortened(f"{spec.urn} {spec.payload.hex()}".strip())


def _splittable(spec: beam_runner_api_pb2.FunctionSpec) -> str:
    fn, *_ = pickler.loads(spec.payload)
    if not isinstance(fn, DoFn):
        return spec.urn
    signature = DoFnSignature(fn)
    parts = (signature.get_restriction_provider(), signature.get_watermark_estimator_provider())
    return ", ".join(identity(part) for part in parts if part is not None)


def _bytes(payload: bytes) -> bytes:
    found: bytes = proto_utils.parse_Bytes(payload, wrappers_pb2.BytesValue).value
    return found
