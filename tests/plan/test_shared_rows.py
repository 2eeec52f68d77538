"""Readers that need the same rows of a port share them."""

from typing import Any

import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, Repeatedly
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec
from apache_beam.transforms.window import GlobalWindows
from noting import values
from plans import translated

from sparkbeam.plan.row_formats import KeyedRows


class Counted(beam.DoFn):
    """Tells how many values of the key there were before."""

    def process(
        self,
        element: tuple[str, int],
        before: Any = beam.DoFn.StateParam(ReadModifyWriteStateSpec("before", VarIntCoder())),
    ) -> Any:
        count = before.read() or 0
        before.write(count + 1)
        yield element[0], count


def both(p: beam.Pipeline) -> Any:
    """A state and a trigger for the same elements."""
    windows = beam.WindowInto(
        GlobalWindows(),
        trigger=Repeatedly(AfterCount(2)),
        accumulation_mode=AccumulationMode.DISCARDING,
    )
    numbers = [(key, n) for n in range(5) for key in "ab"]
    pairs = p | beam.Create(numbers) | windows.with_output_types(tuple[str, int])
    counts = pairs | "State" >> beam.ParDo(Counted())
    groups = pairs | beam.GroupByKey()
    sizes = groups | "Size" >> beam.MapTuple(lambda key, values: (key, len(list(values))))
    return (counts, sizes) | beam.Flatten()


def test_state_and_triggers_of_batch_read_the_same_rows() -> None:
    _, plan = translated(both)
    ports = [port for stage in plan.stages for port in stage.ports]
    assert [port.format for port in ports if isinstance(port.format, KeyedRows)] == [KeyedRows()]
    assert sorted(values(both)) == sorted(values(both, runner=FnApiRunner()))
