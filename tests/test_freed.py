"""What a pipeline has defined is freed once it has run: nothing keeps the user's classes."""

import gc
import importlib
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.userstate import BagStateSpec
from apache_beam.transforms.window import FixedWindows
from in_process import StreamingRunner
from in_process_batch import BatchRunner
from waiting import until

from sparkbeam.columns.bytecode import program_of
from sparkbeam.columns.captured import _set_globals
from sparkbeam.common.placeholders import _kept, filling
from sparkbeam.worker.object_sizes import size_of
from sparkbeam.worker.steps import threads
from sparkbeam.worker.steps.ownership import OF_A_RESULT, may_wait
from sparkbeam.worker.type_cache import ByType


@pytest.fixture(autouse=True)
def soon_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "IDLE_SECONDS", 0.1)


def defined(runner: Any) -> dict[str, weakref.ref[Any]]:
    """Runs a pipeline of classes of its own; gives weak references to them."""

    class Options(PipelineOptions):
        @classmethod
        def _add_argparse_args(cls, parser: Any) -> None:
            parser.add_argument("--defined_in_a_function", default="default")

    class Thing:
        def __init__(self, number: int) -> None:
            self.number = number

    class ThingCoder(beam.coders.Coder):
        def encode(self, value: Any) -> bytes:
            return str(value.number).encode()

        def decode(self, encoded: bytes) -> Any:
            return Thing(int(encoded))

        def to_type_hint(self) -> Any:
            return Thing

    class Made(beam.DoFn):
        def process(self, number: int) -> Iterator[Any]:
            yield Thing(number)

    class Remembered(beam.DoFn):
        BAG = BagStateSpec("bag", VarIntCoder())

        def process(
            self, pair: tuple[str, int], bag: Any = beam.DoFn.StateParam(BAG)
        ) -> Iterator[Any]:
            bag.add(pair[1])
            yield pair

    class Added(beam.CombineFn):
        def create_accumulator(self) -> int:
            return 0

        def add_input(self, accumulator: int, thing: Any) -> int:
            return accumulator + int(thing.number)

        def merge_accumulators(self, accumulators: Any) -> int:
            return sum(accumulators)

        def extract_output(self, accumulator: int) -> int:
            return accumulator

    class Windows(FixedWindows):
        pass

    class Sale(NamedTuple):
        shop: str
        price: int

    class Step(beam.PTransform):
        def expand(self, things: Any) -> Any:
            summed = things | beam.Map(lambda thing: ("a", thing)) | beam.CombinePerKey(Added())
            sales = summed | beam.Map(lambda pair: Sale(*pair)).with_output_types(Sale)
            pairs = sales | beam.Map(tuple).with_output_types(tuple[str, int])
            return pairs | beam.ParDo(Remembered())

    registry: Any = beam.coders.registry
    registry.register_coder(Thing, ThingCoder)
    registry.register_coder(Sale, beam.coders.RowCoder)
    options = PipelineOptions([])
    assert options.view_as(Options).defined_in_a_function == "default"
    with beam.Pipeline(runner(), options=options) as p:
        events = TestStream(VarIntCoder()).add_elements([1, 2]).advance_watermark_to_infinity()
        numbers = p | (events if runner is StreamingRunner else beam.Create([1, 2]))
        things = numbers | beam.ParDo(Made()).with_output_types(Thing)
        _ = things | beam.WindowInto(Windows(10)) | beam.Reshuffle() | Step()
    # Beam keeps what is registered.
    for kind in (Thing, Sale):
        registry._coders.pop(kind)
        registry.custom_types.remove(kind)
    local = (Options, Thing, ThingCoder, Made, Remembered, Added, Windows, Sale, Step)
    return {kind.__name__: weakref.ref(kind) for kind in local}


def left_of(found: dict[str, weakref.ref[Any]]) -> set[str]:
    gc.collect()
    return {name for name, one in found.items() if one() is not None}


HELD_BY_BEAM = {"Sale"}
"""Its registry of schemas keeps each NamedTuple class for ever, whichever runner is used."""


@pytest.mark.parametrize("runner", [BatchRunner, StreamingRunner])
def test_the_classes_of_a_pipeline_are_freed(runner: Any) -> None:
    found = defined(runner)
    until(lambda: left_of(found) <= HELD_BY_BEAM, 30)


@pytest.mark.parametrize("runner", [BatchRunner, StreamingRunner])
def test_pipelines_of_one_process_may_define_options_of_the_same_name(runner: Any) -> None:
    def run(number: int) -> weakref.ref[Any]:
        def add(cls: Any, parser: Any) -> None:
            parser.add_argument("--of_the_same_name", default=number, type=int)

        # A class of another name, as in another test: Beam takes the last one of the same.
        body = {"_add_argparse_args": classmethod(add)}
        kind: Any = type(f"Options{number}", (PipelineOptions,), body)
        options = PipelineOptions([f"--of_the_same_name={number}"])
        with beam.Pipeline(runner(), options=options) as p:
            _ = p | beam.Create([1]) | beam.Map(str)
        assert options.view_as(kind).of_the_same_name == number
        return weakref.ref(kind)

    for number in range(3):
        gone = run(number)
        until(lambda gone=gone: not left_of({"kind": gone}), 30)  # type: ignore[misc]


def kind_of_numbers() -> type:
    return type("Number", (), {"__init__": lambda self: setattr(self, "number", 1)})


USES: dict[str, Callable[[type], object]] = {
    "size": lambda kind: size_of(kind()),
    "ownership": lambda kind: may_wait(kind(), None, OF_A_RESULT),
    "type": ByType(lambda kind: 3).learn,
}


@pytest.mark.parametrize("use", USES)
def test_what_is_known_of_a_type_ends_with_it(use: str) -> None:
    kind = kind_of_numbers()
    USES[use](kind)
    gone = weakref.ref(kind)
    del kind
    until(lambda: not left_of({"kind": gone}), 30)


def test_a_type_that_gets_the_place_of_another_one_is_not_taken_for_it() -> None:
    known = ByType(lambda kind: kind.__name__)
    for number in range(20):
        kind = type(f"Kind{number}", (), {})
        assert (known.get(id(kind)) or known.learn(kind)) == f"Kind{number}"
        gone = weakref.ref(kind)
        del kind
        until(lambda gone=gone: not left_of({"kind": gone}), 30)  # type: ignore[misc]
    assert len(known._values) == 0


def test_the_code_of_a_function_is_not_kept() -> None:
    space: dict[str, Any] = {}
    exec("def function(number): return number + 1", space)
    code = space["function"].__code__
    assert program_of(code) is program_of(code)
    gone = weakref.ref(code)
    del code
    space.clear()
    until(lambda: not left_of({"code": gone}), 30)


def test_a_module_that_is_loaded_anew_is_looked_at_anew(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    path = tmp_path / "sometimes_set.py"
    path.write_text("RATE = 1\ndef change():\n    return RATE\n")
    module = importlib.import_module("sometimes_set")
    assert not _set_globals(vars(module))
    path.write_text("RATE = 1\ndef change():\n    global RATE\n    RATE += 1\n")
    importlib.reload(module)
    assert _set_globals(vars(module)) == {"RATE"}
    gone = weakref.ref(module)
    del module, sys.modules["sometimes_set"]
    until(lambda: not left_of({"module": gone}), 30)


def test_columns_of_few_types_are_kept_for_filling() -> None:
    one, other = (filling(pa.int64(), count).buffers()[1] for count in (3, 2))
    assert one.address == other.address
    some = pa.struct([("field", pa.int64())])
    assert filling(some, 3).null_count == 3
    assert some not in _kept
