"""The plan chooses the operator of each step, with the reason why it takes single elements."""

from collections.abc import Callable
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import coders
from apache_beam.transforms.combiners import Latest
from apache_beam.transforms.window import (
    FixedWindows,
    IntervalWindow,
    NonMergingWindowFn,
    Sessions,
    WindowFn,
)
from in_process_batch import BatchRunner
from noting import found, note
from plans import Stateful, translated

from sparkbeam.plan import operator_choice
from sparkbeam.plan.column_steps import told
from sparkbeam.plan.operators import Kind, Operator
from sparkbeam.plan.translate import translate
from sparkbeam.worker.steps.step_table import OPERATIONS


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


STEPS: dict[str, tuple[Any, Kind, str | None]] = {
    "function": (beam.Map(str), Kind.FUNCTION, None),
    "filter": (beam.Filter(bool), Kind.FUNCTION, None),
    "arguments": (beam.Map(lambda one, more: (one, more), 3), Kind.ARGUMENTS, None),
    "asking": (
        beam.Map(lambda one, time=beam.DoFn.TimestampParam: one),
        Kind.BEAM,
        "it asks for the timestamp",
    ),
    "process": (beam.ParDo(Alone()), Kind.PROCESS, None),
    "life": (beam.ParDo(Counting()), Kind.DOFN, "it has a setup"),
    "timed": (beam.ParDo(Timed()), Kind.DOFN, "it asks for the timestamp"),
    "stateful": (beam.ParDo(Stateful()), Kind.STATEFUL_DOFN, "it has state or timers"),
    "finalizer": (beam.ParDo(Finalizing()), Kind.BEAM, "it asks for a bundle finalizer"),
    "windows": (beam.WindowInto(FixedWindows(3)), Kind.WINDOWS, None),
    "windows of elements": (
        beam.WindowInto(ByElement()),
        Kind.WINDOWS,
        "its WindowFn asks for more than the timestamp",
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
    assert operators["Step"] == Operator("Step", kind, reason)


@pytest.mark.blocks(reason="there are Beam's own operators alone")
def test_several_outputs_are_beams_own() -> None:
    def build(pairs: Any) -> Any:
        return pairs | "Step" >> beam.ParDo(Tagging()).with_outputs("other", main="main")

    (operator,) = [one for label, one in chosen(build).items() if label.startswith("Step")]
    assert (operator.kind, operator.reason) == (Kind.BEAM, "it has several outputs")


@pytest.mark.blocks(reason="there are Beam's own operators alone")
@pytest.mark.parametrize(
    ("windows", "kind"),
    [(FixedWindows(1), Kind.PRECOMBINE), (Sessions(1), Kind.SESSION_COMBINE)],
)
def test_each_part_of_a_combine_has_an_operator(windows: Any, kind: Kind) -> None:
    operators = chosen(
        lambda pairs: pairs | beam.WindowInto(windows) | "Sum" >> beam.CombinePerKey(sum)
    )
    kinds = [one.kind for label, one in operators.items() if label.startswith("Sum/")]
    assert kinds == [kind, Kind.MERGE, Kind.EXTRACT]


@pytest.mark.blocks(reason="there are Beam's own operators alone")
def test_what_makes_columns_does_so_where_they_are_wanted() -> None:
    def build(pipeline: Any) -> Any:
        return pipeline | "Make" >> beam.Create([("a", 1)]) | "Latest" >> Latest.PerKey()

    proto, plan = translated(build)
    assert Kind.TIMESTAMPS in {one.kind for s in plan.stages for one in s.operators}
    plan = translate(proto, in_columns=False)
    assert Kind.TIMESTAMPS not in {one.kind for s in plan.stages for one in s.operators}


def test_every_kind_has_an_operation() -> None:
    rules = (*operator_choice.OF_OUR_OWN, *operator_choice.IN_BLOCKS, *operator_choice.BEAMS)
    assert {rule.kind for rule in rules} <= set(Kind) == {*OPERATIONS, Kind.BEAM}


class TestWithoutBlocks:
    @pytest.fixture(autouse=True)
    def _without(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(operator_choice, "IN_BLOCKS", ())

    @pytest.mark.parametrize("name", STEPS)
    def test_all_steps_are_beams_own(self, name: str) -> None:
        step, *_ = STEPS[name]
        operators = chosen(lambda pairs: pairs | "Step" >> step)
        assert operators["Step"].kind in (Kind.BEAM, Kind.STATEFUL)

    def test_they_run_and_are_told_so(self) -> None:
        found.clear()
        p = beam.Pipeline(BatchRunner())
        _ = p | beam.Create([3]) | "Add" >> beam.Map(lambda one: one + 1) | beam.Map(note)
        p.run().wait_until_finish()
        assert [element for element, *_ in found] == [4]
        _, plan = translated(lambda p: p | "Make" >> beam.Create([3]) | "Add" >> beam.Map(str))
        steps = {step.label: step for steps in told(plan).values() for step in steps}
        assert steps["Add"].reason is not None
