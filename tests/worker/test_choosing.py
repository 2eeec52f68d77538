"""Combines that choose a value: few of the values of a column tell what all of them come to."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.transforms.combiners import Latest, Top
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark
from apache_beam.transforms.window import (
    FixedWindows,
    Sessions,
    SlidingWindows,
    TimestampCombiner,
    TimestampedValue,
)
from in_process_batch import BatchRunner
from noting import found, note

from sparkbeam.operators import registry
from sparkbeam.worker.steps.combines import PrecombineOperation

Build = Callable[[Any], Any]
WINDOWS: dict[str, dict[str, Any]] = {
    "global": {},
    "fixed": {"windowfn": FixedWindows(3)},
    "sliding": {"windowfn": SlidingWindows(6, 3)},
    "sessions": {"windowfn": Sessions(1)},
    "stamps": {
        "windowfn": FixedWindows(3),
        "timestamp_combiner": TimestampCombiner.OUTPUT_AT_LATEST,
    },
    "early": {
        "windowfn": FixedWindows(3),
        "trigger": AfterWatermark(early=AfterCount(2)),
        "accumulation_mode": AccumulationMode.ACCUMULATING,
    },
}


def rows_of(count: int) -> pa.Table:
    choice = random.Random(2)
    numbers = range(count)
    return pa.table(
        {
            "shop": pa.array([choice.choice(["ann", "zoë", ""]) for _ in numbers]),
            "name": pa.array([choice.choice(["a", "aa", "é", "\U0001f600", "z"]) for _ in numbers]),
            "raw": pa.array([bytes([choice.randrange(256)]) for _ in numbers]),
            "maybe": pa.array([None if at == 700 else "x" for at in numbers]),
            "id": pa.array(numbers, pa.int64()),
            "second": pa.array([choice.randrange(9) for _ in numbers], pa.int64()),
        }
    )


def pairs(field: str) -> Build:
    def of(row: dict[str, Any]) -> Any:
        return (row["shop"], row[field])

    return lambda rows: rows | "pairs" >> beam.Map(of)


PIPELINES: dict[str, Build] = {
    "min": lambda rows: pairs("name")(rows) | beam.CombinePerKey(min),
    "max": lambda rows: pairs("raw")(rows) | beam.CombinePerKey(max),
    "top": lambda rows: pairs("name")(rows) | Top.LargestPerKey(1),
    "of all": lambda rows: (
        rows | beam.Map(lambda row: row["name"]) | beam.CombineGlobally(min).without_defaults()
    ),
    "latest": lambda rows: pairs("id")(rows) | Latest.PerKey(),
    "latest row": lambda rows: (
        rows | beam.Map(lambda row: (row["shop"], (row["id"], row))) | Latest.PerKey()
    ),
    "latest of all": lambda rows: (
        rows | beam.Map(lambda row: (row["id"], row["name"])) | Latest.Globally().without_defaults()
    ),
}
IN_TIME = "in time"


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., list[str]]:
    """What comes out of a pipeline over the rows of a file."""
    source = tmp_path / "source.parquet"
    pq.write_table(rows_of(1000), source, row_group_size=400)

    def run(build: Build, windowing: dict[str, Any]) -> list[str]:
        found.clear()
        p = beam.Pipeline(BatchRunner())
        rows = p | beam.io.ReadFromParquet(str(source))
        stamped = rows | IN_TIME >> beam.Map(lambda row: TimestampedValue(row, row["second"]))
        windowed = stamped | beam.WindowInto(**windowing) if windowing else stamped
        _ = build(windowed) | "note" >> beam.Map(note)
        try:
            p.run().wait_until_finish()
        except Exception as error:
            return [type(error.__cause__).__name__]
        return sorted(map(repr, found))

    return run


@pytest.mark.part(5)
@pytest.mark.parametrize("windows", WINDOWS)
@pytest.mark.parametrize("name", PIPELINES)
def test_what_is_chosen_is_chosen_of_all(
    name: str, windows: str, run: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    results = run(PIPELINES[name], WINDOWS[windows])
    monkeypatch.setattr(registry, "OPERATORS", registry.ELEMENTWISE)
    expected = run(PIPELINES[name], WINDOWS[windows])
    assert results
    assert results == expected


def test_none_among_text_raises_as_it_does(
    run: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def build(rows: Any) -> Any:
        return pairs("maybe")(rows) | beam.CombinePerKey(min)

    results = run(build, {})
    monkeypatch.setattr(registry, "OPERATORS", registry.ELEMENTWISE)
    assert results == run(build, {}) == ["TypeError"]


@pytest.mark.blocks(reason="Beam's own operations get no columns")
@pytest.mark.parametrize("name", PIPELINES)
def test_few_of_the_values_become_objects(
    name: str, run: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []
    take = PrecombineOperation._take

    def watched(self: Any, windows: Any, pairs: list[Any], stamps: Any, **more: Any) -> None:
        taken.append(len(pairs))
        take(self, windows, pairs, stamps, **more)

    monkeypatch.setattr(PrecombineOperation, "_take", watched)
    run(PIPELINES[name], {})
    assert 0 < sum(taken) < 100
