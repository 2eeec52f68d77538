"""Readers that need the same rows of a port share them."""

from typing import Any

import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, Repeatedly
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec
from apache_beam.transforms.window import GlobalWindows
from in_process_batch import BatchRunner
from noting import found, note
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


def both(p: beam.Pipeline) -> None:
    """A state and a trigger for the same elements."""
    windows = beam.WindowInto(
        GlobalWindows(),
        trigger=Repeatedly(AfterCount(2)),
        accumulation_mode=AccumulationMode.DISCARDING,
    )
    numbers = [(key, n) for n in range(5) for key in "ab"]
    pairs = p | beam.Create(numbers) | windows.with_output_types(tuple[str, int])
    pairs | "State" >> beam.ParDo(Counted()) | "Counts" >> beam.Map(note)
    groups = pairs | beam.GroupByKey()
    groups | "Size" >> beam.MapTuple(lambda key, values: (key, len(list(values)))) | beam.Map(note)


def test_state_and_triggers_of_batch_read_the_same_rows() -> None:
    _, plan = translated(both)
    ports = [port for stage in plan.stages for port in stage.ports]
    assert [port.format for port in ports if isinstance(port.format, KeyedRows)] == [KeyedRows()]
    results = []
    for runner in (BatchRunner(), FnApiRunner()):
        found.clear()
        with beam.Pipeline(runner) as p:
            both(p)
        results.append(sorted(element for element, *_ in found))
    assert results[0] == results[1]
