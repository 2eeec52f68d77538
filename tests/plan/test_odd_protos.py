"""A damaged proto is an error that names the transform, or what else is not whole."""

import functools
from collections.abc import Callable
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.transforms.userstate import BagStateSpec
from apache_beam.transforms.window import FixedWindows, Sessions
from hypothesis import given, settings
from hypothesis import strategies as st
from odd import FEW, assert_short

from sparkbeam import ConfigurationError, SparkBeamError, UnsupportedTransform
from sparkbeam.operators.registry import operators_of
from sparkbeam.plan.translate import translate

Proto = beam_runner_api_pb2.Pipeline


class Remember(beam.DoFn):
    SEEN = BagStateSpec("seen", VarIntCoder())

    def process(self, element: Any, seen: Any = beam.DoFn.StateParam(SEEN)) -> None:
        seen.add(element[1])


@functools.cache
def whole() -> bytes:
    """A pipeline with a bit of everything."""
    pipeline = beam.Pipeline()
    pairs = pipeline | "Numbers" >> beam.Create([1, 2]) | "Pair" >> beam.Map(lambda x: (x, x))
    total = pairs | beam.Values() | "Total" >> beam.CombineGlobally(sum)
    parts = pairs | "Shares" >> beam.Map(lambda pair, _: pair, beam.pvalue.AsSingleton(total))
    both = (parts, pairs) | beam.Flatten()
    _ = both | beam.WindowInto(FixedWindows(5)) | "Group" >> beam.GroupByKey()
    _ = both | "By session" >> beam.WindowInto(Sessions(5)) | "Sum" >> beam.CombinePerKey(sum)
    _ = pairs | beam.Reshuffle() | "Remember" >> beam.ParDo(Remember())
    return bytes(pipeline.to_runner_api().SerializeToString())


def proto() -> Proto:
    return Proto.FromString(whole())


def transform(pipeline: Proto, label: str) -> Any:
    (found,) = (t for t in pipeline.components.transforms.values() if t.unique_name == label)
    return found


def error_of(pipeline: Proto) -> SparkBeamError:
    with pytest.raises(SparkBeamError) as caught:
        translate(pipeline, operators_of)
    assert_short(str(caught.value))
    return caught.value


PARTS = ["transforms", "pcollections", "coders", "windowing_strategies", "environments"]


@pytest.mark.parametrize("streaming", [False, True], ids=["batch", "streaming"])
def test_the_whole_one_is_taken(streaming: bool) -> None:
    assert translate(proto(), operators_of, streaming=streaming).stages


@settings(FEW, max_examples=60)
@given(data=st.data())
def test_a_part_that_is_missing_emptied_or_another_one(data: st.DataObject) -> None:
    pipeline = proto()
    kind = data.draw(st.sampled_from(PARTS))
    parts = getattr(pipeline.components, kind)
    id = data.draw(st.sampled_from(sorted(parts)))
    match data.draw(st.sampled_from(["missing", "empty", "another"])):
        case "missing":
            del parts[id]
        case "empty":
            parts[id].Clear()
        case "another":
            parts[id].CopyFrom(parts[data.draw(st.sampled_from(sorted(parts)))])
    check(pipeline, data.draw(st.booleans()))


@settings(FEW, max_examples=60)
@given(data=st.data())
def test_a_transform_with_another_function_or_other_ends(data: st.DataObject) -> None:
    pipeline = proto()
    transforms = pipeline.components.transforms
    found = transforms[data.draw(st.sampled_from(sorted(transforms)))]
    pcollections = st.sampled_from([*sorted(pipeline.components.pcollections), "none", ""])
    other = transforms[data.draw(st.sampled_from(sorted(transforms)))]
    match data.draw(st.sampled_from(["urn", "payload", "cut", "input", "output", "part", "place"])):
        case "urn":
            found.spec.urn = data.draw(st.sampled_from(["", "none:v1", other.spec.urn]))
        case "payload":
            found.spec.payload = data.draw(st.binary(max_size=20))
        case "cut":
            found.spec.payload = found.spec.payload[: len(found.spec.payload) // 2]
        case "input":
            found.inputs[data.draw(st.sampled_from([*found.inputs, "odd"]))] = data.draw(
                pcollections
            )
        case "output":
            found.outputs[data.draw(st.sampled_from([*found.outputs, "odd"]))] = data.draw(
                pcollections
            )
        case "part":
            found.subtransforms.append(data.draw(st.sampled_from(["none", *sorted(transforms)])))
        case "place":
            found.environment_id = data.draw(st.sampled_from(["none", ""]))
    check(pipeline, data.draw(st.booleans()))


@FEW
@given(content=st.binary(max_size=40))
def test_a_proto_of_anything(content: bytes) -> None:
    try:
        pipeline = Proto.FromString(content)
    except Exception:  # What is no proto at all does not get here.
        return
    check(pipeline, False)


def check(pipeline: Proto, streaming: bool) -> None:
    try:
        translate(pipeline, operators_of, streaming=streaming)
    except SparkBeamError as error:
        assert_short(str(error))


def without_coder(pipeline: Proto) -> None:
    (pcollection,) = transform(pipeline, "Pair").outputs.values()
    pipeline.components.pcollections[pcollection].coder_id = "none"


def without_input(pipeline: Proto) -> None:
    transform(pipeline, "Pair").inputs["0"] = "none"


def own_input(pipeline: Proto) -> None:
    (output,) = transform(pipeline, "Shares").outputs.values()
    transform(pipeline, "Pair").inputs["0"] = output


def own_part(pipeline: Proto) -> None:
    label = next(id for id, t in pipeline.components.transforms.items() if t.unique_name == "Pair")
    transform(pipeline, "Pair").subtransforms.append(label)


def unreadable(pipeline: Proto) -> None:
    transform(pipeline, "Pair").spec.payload = b"\xff\xff"


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (without_coder, "has no coder"),
        (without_input, "its PCollection 'none' is missing"),
        (own_input, "its input depends on its own output"),
        (own_part, "it contains itself"),
        (unreadable, "its payload cannot be read"),
    ],
)
def test_the_transform_is_named(damage: Callable[[Proto], None], reason: str) -> None:
    pipeline = proto()
    damage(pipeline)
    error = error_of(pipeline)
    assert isinstance(error, UnsupportedTransform)
    assert error.label.startswith(("Pair", "Shares"))
    assert reason in str(error)


def test_a_coder_that_is_its_own_part_is_told() -> None:
    pipeline = proto()
    id = next(id for id, c in pipeline.components.coders.items() if c.component_coder_ids)
    pipeline.components.coders[id].component_coder_ids[0] = id
    error = error_of(pipeline)
    assert isinstance(error, ConfigurationError)
    assert f"The coder '{id}' contains itself" in str(error)
