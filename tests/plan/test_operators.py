"""The plan chooses the operator of each step, with the reason why it takes single elements."""

import pickle
import pkgutil
from collections.abc import Iterator
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
from golden_files import Golden, sections
from noting import found, values
from plans import Stateful, translated

import sparkbeam.operators
from sparkbeam.operators import registry
from sparkbeam.operators.batches import Batches
from sparkbeam.operators.beam import Beam
from sparkbeam.operators.stateful import Stateful as BeamsStateful
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


STEPS: dict[str, Any] = {
    "function": beam.Map(str),
    "filter": beam.Filter(bool),
    "arguments": beam.Map(lambda one, more: (one, more), 3),
    "asking": beam.Map(lambda one, time=beam.DoFn.TimestampParam: one),
    "asking for the pane": beam.Map(lambda one, pane=beam.DoFn.PaneInfoParam: one),
    "process": beam.ParDo(Alone()),
    "life": beam.ParDo(Counting()),
    "timed": beam.ParDo(Timed()),
    "timed life": beam.ParDo(TimedLife()),
    "stateful": beam.ParDo(Stateful()),
    "finalizer": beam.ParDo(Finalizing()),
    "several outputs": beam.ParDo(Tagging()).with_outputs("other", main="main"),
    "windows": beam.WindowInto(FixedWindows(3)),
    "windows of elements": beam.WindowInto(ByElement()),
    "combine": beam.CombinePerKey(sum),
    "combine in windows": beam.WindowInto(FixedWindows(1)) | beam.CombinePerKey(sum),
    "combine in sessions": beam.WindowInto(Sessions(1)) | beam.CombinePerKey(sum),
}


def chosen(step: Any, **how: Any) -> list[Operator]:
    def whole(pipeline: beam.Pipeline) -> Any:
        return pipeline | "Make" >> beam.Create([("a", 1)]) | "Step" >> step

    _, plan = translated(whole, **how)
    operators = [one for stage in plan.stages for one in stage.operators]
    return [one for one in operators if one.label.startswith("Step")]


@pytest.mark.blocks(reason="there are Beam's own operators alone")
@pytest.mark.parametrize("streaming", [False, True], ids=["batch", "streaming"])
def test_a_step_has_the_first_operator_that_suits_it(golden: Golden, streaming: bool) -> None:
    texts = {}
    for name, step in STEPS.items():
        operators = chosen(step, streaming=streaming)
        assert pickle.loads(pickle.dumps(operators)) == operators
        texts[name] = [str(one) for one in operators]
    golden(f"operators in {'streaming' if streaming else 'batch'}.txt", sections(texts))


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
        if not name.startswith("combine"):
            assert {type(one) for one in chosen(STEPS[name])} <= {Beam, BeamsStateful}

    def test_they_run_and_are_told_so(self) -> None:
        assert values(lambda p: p | beam.Create([3]) | "Add" >> beam.Map(lambda n: n + 1)) == [4]
        _, plan = translated(lambda p: p | "Make" >> beam.Create([3]) | "Add" >> beam.Map(str))
        steps = {step.label: step for stage in plan.stages for step in stage.column_steps}
        assert steps["Add"].reason is not None
