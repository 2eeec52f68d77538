"""Pipelines that parse JSON run over columns, with the results and errors of single elements."""

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.window import FixedWindows
from in_process import StreamingRunner
from in_process_batch import BatchRunner
from noting import found, note

from sparkbeam import PipelineFailed
from sparkbeam.io import ReadFromArrow

Build = Callable[[Any], Any]
COUNT = 400
SCHEMA = pa.schema([("key", pa.binary()), ("value", pa.binary()), ("at", pa.timestamp("us"))])


class Record(NamedTuple):
    key: bytes
    value: bytes


def click(number: int) -> dict[str, Any]:
    return {"user": f"u{number % 7}", "price": number + 0.5, "item": {"id": number % 5}}


def alike(number: int) -> str:
    return json.dumps(click(number))


def with_an_int(number: int) -> str:
    return json.dumps(click(number) | ({"price": number} if number == 70 else {}))


def with_a_tail(number: int) -> str:
    return alike(number) + ("x" if number == 70 else "")


def records(text: Callable[[int], str]) -> Any:
    def read(part: int, columns: list[str]) -> Iterator[pa.RecordBatch]:
        numbers = range(part * COUNT, (part + 1) * COUNT)
        batch = pa.RecordBatch.from_arrays(
            [
                pa.array([b"k"] * COUNT),
                pa.array([text(number).encode() for number in numbers]),
                pa.array([number * 1000 for number in numbers], pa.timestamp("us")),
            ],
            schema=SCHEMA,
        )
        yield batch.select(columns)

    return ReadFromArrow([0, 1], read, Record, timestamp_column="at", schema=SCHEMA)


class Priced(beam.DoFn):
    def process(self, click: Any) -> Any:
        if click["item"]["id"] > 2:
            yield click["user"], click["price"]


PIPELINES: dict[str, Build] = {
    "in one step": lambda rows: rows | beam.Map(lambda row: json.loads(row.value)["price"]),
    "of text": lambda rows: (
        rows
        | beam.Map(lambda row: row.value.decode("utf-8"))
        | beam.Map(lambda text: json.loads(text).get("item")["id"])
    ),
    "in several steps": lambda rows: (
        rows
        | "Value" >> beam.Map(lambda row: row.value)
        | "Parse" >> beam.Map(json.loads)
        | "Pair" >> beam.Map(lambda click: (click["user"], click["price"]))
        | beam.CombinePerKey(max)
    ),
    "filtered": lambda rows: (
        rows
        | beam.Filter(lambda row: json.loads(row.value)["item"]["id"] == 3)
        | beam.Map(lambda row: row.key)
    ),
    "by a DoFn": lambda rows: (
        rows
        | beam.Map(lambda row: json.loads(row.value))
        | beam.ParDo(Priced())
        | beam.WindowInto(FixedWindows(1))
        | beam.combiners.Count.PerKey()
    ),
    "written again": lambda rows: (
        rows | beam.Map(lambda row: json.loads(row.value)) | "Write" >> beam.Map(json.dumps)
    ),
}


def run(build: Build, text: Callable[[int], str], runner: Any) -> Any:
    found.clear()
    p = beam.Pipeline(runner)
    _ = build(p | records(text)) | "Note" >> beam.Map(note)
    result = p.run()
    result.wait_until_finish()
    return result


def refused(result: Any) -> set[str]:
    """The reasons for which the steps that parse, and take what is parsed, have refused blocks."""
    return {
        counter.key.metric.name
        for counter in result.metrics().query()["counters"]
        if counter.key.metric.name.startswith("refused_blocks")
        and counter.key.step.startswith(("Parse", "Pair", "CombinePerKey(max)/Precombine"))
    }


def results() -> list[str]:
    """The elements with their windows and timestamps."""
    return sorted(repr(one[:3]) for one in found)


@pytest.mark.part(5)
@pytest.mark.parametrize("text", [alike, with_an_int])
@pytest.mark.parametrize("name", PIPELINES)
def test_results_are_those_of_single_elements(name: str, text: Callable[[int], str]) -> None:
    run(PIPELINES[name], text, FnApiRunner())
    expected = results()
    for runner in (BatchRunner(), StreamingRunner()):
        run(PIPELINES[name], text, runner)
        assert results() == expected


@pytest.mark.blocks(reason="Beam's own operations get no columns")
def test_only_blocks_of_one_type_are_columns() -> None:
    build = PIPELINES["in several steps"]
    assert not refused(run(build, alike, BatchRunner()))
    (reason,) = refused(run(build, with_an_int, BatchRunner()))
    assert "values of" in reason


def test_an_error_is_that_of_the_step_that_parses() -> None:
    with pytest.raises(PipelineFailed, match="Parse") as failure:
        run(PIPELINES["in several steps"], with_a_tail, BatchRunner())
    assert isinstance(failure.value.__cause__, json.JSONDecodeError)
    assert "Extra data" in str(failure.value.__cause__)
