"""The plan chooses the operator of each step, with the reason why it takes single elements."""

import pickle
import pkgutil
from collections.abc import Callable, Iterator
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.coders import coders
from apache_beam.transforms.window import (
    FixedWindows,
    IntervalWindow,
    NonMergingWindowFn,
    Sessions,
    WindowFn,
)
from noting import found, values
from plans import Stateful, translated

import sparkbeam.operators
from sparkbeam.operators import registry
from sparkbeam.operators.arguments import FunctionWithArguments
from sparkbeam.operators.batches import Batches
from sparkbeam.operators.beam import Beam
from sparkbeam.operators.dofn import DoFn
from sparkbeam.operators.extract import Extract
from sparkbeam.operators.function import Function
from sparkbeam.operators.merge import Merge
from sparkbeam.operators.precombine import Precombine
from sparkbeam.operators.process import Process
from sparkbeam.operators.stateful import Stateful as BeamsStateful
from sparkbeam.operators.stateful_dofn import StatefulDoFn
from sparkbeam.operators.windows import Windows
from sparkbeam.plan.combine_columns import CombinePlan
from sparkbeam.plan.grouping import SessionAggregator
from sparkbeam.plan.operator import Operator
from sparkbeam.plan.planned_step import PlannedStep
from sparkbeam.plan.translate import translate
from sparkbeam.worker.steps.step import Step


class Alone(beam.DoFn):
    def process(self, element: Any) -> Any:
        yield element


class Counting(Alone):
    takes_columns = True
    """An attribute of the user's, which means nothing."""

    def setup(self) -> None:
        self.count = 0


class Timed(beam.DoFn):
    def process(self, element: Any, time: Any = beam.DoFn.TimestampParam) -> Any:
        yield element


class TimedLife(Timed):
    def start_bundle(self) -> None:
        pass


class Tables(beam.DoFn):
    def process_batch(self, batch: pa.Table) -> Iterator[pa.Table]:
        yield batch

    def infer_output_type(self, input_type: Any) -> Any:
        return input_type


class Tagging(beam.DoFn):
    def process(self, element: Any) -> Any:
        yield beam.pvalue.TaggedOutput("other", element)


class Finalizing(beam.DoFn):
    def process(self, element: Any, finalizer: Any = beam.DoFn.BundleFinalizerParam) -> Any:
        yield element


class ByElement(NonMergingWindowFn):
    def assign(self, context: WindowFn.AssignContext) -> list[IntervalWindow]:
        return [IntervalWindow(0, 1 + bool(context.element))]

    def get_window_coder(self) -> Any:
        return coders.IntervalWindowCoder()


STEPS: dict[str, tuple[Any, type[Operator], str | None]] = {
    "function": (beam.Map(str), Function, None),
    "filter": (beam.Filter(bool), Function, None),
    "arguments": (beam.Map(lambda one, more: (one, more), 3), FunctionWithArguments, None),
    "asking": (
        beam.Map(lambda one, time=beam.DoFn.TimestampParam: one),
        FunctionWithArguments,
        None,
    ),
    "asking for the pane": (
        beam.Map(lambda one, pane=beam.DoFn.PaneInfoParam: one),
        Beam,
        "it uses the pane",
    ),
    "process": (beam.ParDo(Alone()), Process, None),
    "life": (beam.ParDo(Counting()), DoFn, "it has a setup"),
    "timed": (beam.ParDo(Timed()), FunctionWithArguments, None),
    "timed life": (beam.ParDo(TimedLife()), DoFn, "it has a start_bundle"),
    "stateful": (beam.ParDo(Stateful()), StatefulDoFn, "it has state or timers"),
    "finalizer": (beam.ParDo(Finalizing()), Beam, "it uses a bundle finalizer"),
    "windows": (beam.WindowInto(FixedWindows(3)), Windows, None),
    "windows of elements": (
        beam.WindowInto(ByElement()),
        Windows,
        "its WindowFn needs more than the timestamp",
    ),
}


def chosen(build: Callable[[Any], Any], **how: Any) -> dict[str, Operator]:
    """The operators by their labels."""

    def whole(pipeline: beam.Pipeline) -> Any:
        return build(pipeline | "Make" >> beam.Create([("a", 1)]))

    _, plan = translated(whole, **how)
    return {one.label: one for stage in plan.stages for one in stage.operators}


@pytest.mark.blocks(reason="there are Beam's own operators alone")
@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("name", STEPS)
def test_a_step_has_the_first_operator_that_suits_it(name: str, streaming: bool) -> None:
    step, kind, reason = STEPS[name]
    operators = chosen(lambda pairs: pairs | "Step" >> step, streaming=streaming)
    assert pickle.loads(pickle.dumps(operators["Step"])) == kind("Step", reason)


@pytest.mark.blocks(reason="there are Beam's own operators alone")
def test_several_outputs_are_beams_own() -> None:
    def build(pairs: Any) -> Any:
        return pairs | "Step" >> beam.ParDo(Tagging()).with_outputs("other", main="main")

    (operator,) = [one for label, one in chosen(build).items() if label.startswith("Step")]
    assert (type(operator), operator.reason) == (Beam, "it has several outputs")


@pytest.mark.blocks(reason="there are Beam's own operators alone")
@pytest.mark.parametrize(
    ("windows", "plan"),
    [
        (FixedWindows(1), CombinePlan(take_slices=True)),
        (Sessions(1), CombinePlan(aggregator=SessionAggregator.COLUMNAR)),
    ],
)
def test_each_part_of_a_combine_has_an_operator(windows: Any, plan: CombinePlan) -> None:
    operators = chosen(
        lambda pairs: pairs | beam.WindowInto(windows) | "Sum" >> beam.CombinePerKey(sum)
    )
    parts = [one for label, one in operators.items() if label.startswith("Sum/")]
    assert [type(one) for one in parts] == [Precombine, Merge, Extract]
    assert isinstance(parts[0], Precombine)
    assert parts[0].plan == plan


@pytest.mark.blocks(reason="there are Beam's own operators alone")
def test_what_makes_columns_does_so_where_they_are_wanted() -> None:
    def build(pipeline: Any) -> Any:
        return pipeline | "Make" >> beam.Create([beam.Row(x=1)]) | "Tables" >> beam.ParDo(Tables())

    proto, plan = translated(build)
    assert Batches in {type(one) for s in plan.stages for one in s.operators}
    plan = translate(proto, registry.operators_of, in_columns=False)
    assert Batches not in {type(one) for s in plan.stages for one in s.operators}


@pytest.mark.blocks(reason="there are Beam's own operators alone")
def test_each_module_has_an_operator_that_is_in_the_list_and_the_last_one_suits_all() -> None:
    modules = {module.name for module in pkgutil.iter_modules(sparkbeam.operators.__path__)}
    listed = {operator.__module__.rpartition(".")[2] for operator in registry.OPERATORS}
    assert listed == modules - {"registry"}
    assert registry.OPERATORS[-1] is registry.ELEMENTWISE[-1] is Beam


class Shouting(Operator):
    """An operator that is nowhere but here and in the list."""

    @classmethod
    def matches(cls, step: PlannedStep) -> "Shouting | None":
        return cls(step.label, "it shouts") if step.label == "Shout" else None

    def run(self, step: Step) -> Any:
        found.append((self, "", 0, ""))
        return step.beams_own()


def test_an_operator_is_one_class_and_a_place_in_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "OPERATORS", (Shouting, *registry.OPERATORS))
    found = values(lambda p: p | "Make" >> beam.Create(["a"]) | "Shout" >> beam.Map(str.upper))
    assert found == [Shouting("Shout", "it shouts"), "A"]
    _, plan = translated(lambda p: p | "Make" >> beam.Create([3]) | "Shout" >> beam.Map(str))
    assert Shouting("Shout", "it shouts") in plan.stages[-1].operators


class TestWithoutBlocks:
    @pytest.fixture(autouse=True)
    def _without(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(registry, "OPERATORS", registry.ELEMENTWISE)

    @pytest.mark.parametrize("name", STEPS)
    def test_all_steps_are_beams_own(self, name: str) -> None:
        step, *_ = STEPS[name]
        operators = chosen(lambda pairs: pairs | "Step" >> step)
        assert type(operators["Step"]) in (Beam, BeamsStateful)

    def test_they_run_and_are_told_so(self) -> None:
        assert values(lambda p: p | beam.Create([3]) | "Add" >> beam.Map(lambda n: n + 1)) == [4]
        _, plan = translated(lambda p: p | "Make" >> beam.Create([3]) | "Add" >> beam.Map(str))
        steps = {step.label: step for stage in plan.stages for step in stage.column_steps}
        assert steps["Add"].reason is not None
