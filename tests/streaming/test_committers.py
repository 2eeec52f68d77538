"""A micro-batch that runs again because the driver died between a sink's commit and Spark's."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from in_process import Crashes, Point, Spark
from test_output_modes import SCHEMA, console, counts, result, run

from sparkbeam import PipelineFailed
from sparkbeam.common.sink_ids import TakesSinkId
from sparkbeam.io import Foreach, ForeachBatch


@dataclass(frozen=True)
class Function(TakesSinkId):
    """Notes with which id, in which micro-batch and with which rows it is called."""

    path: Path
    sink_id: str = ""

    def with_sink_id(self, sink_id: str) -> "Function":
        return replace(self, sink_id=sink_id)

    def __call__(self, frame: Any, number: int) -> None:
        self.note(number, [(row.key, row.count) for row in frame.collect()])

    def note(self, number: int, rows: list[tuple[Any, ...]]) -> None:
        with self.path.open("a") as file:
            file.write(f"{(self.sink_id, number, sorted(rows))!r}\n")

    def found(self) -> list[tuple[str, int, list[Any]]]:
        return [eval(line) for line in self.path.read_text().splitlines()]


class Writer(TakesSinkId):
    """The same of a writer."""

    def __init__(self, function: Function) -> None:
        self._function = function
        self._rows: list[tuple[Any, ...]] = []

    def with_sink_id(self, sink_id: str) -> "Writer":
        return Writer(self._function.with_sink_id(sink_id))

    def open(self, partition_id: int, epoch_id: int) -> bool:
        self._number = epoch_id
        return True

    def process(self, row: Any) -> None:
        self._rows.append((row["key"], row["count"]))

    def close(self, error: Exception | None) -> None:
        self._function.note(self._number, self._rows)


def run_over_a_crash(folder: Path, at: Point, sink: Any) -> None:
    spark = Spark(Crashes(at))
    with pytest.raises(PipelineFailed):
        run(spark, folder, lambda p: counts(p) | sink)
    run(spark, folder, lambda p: counts(p) | sink)


@pytest.mark.parametrize("kind", ["function", "writer"])
def test_own_code_gets_the_same_id_number_and_rows_again(kind: str, tmp_path: Path) -> None:
    notes = Function(tmp_path / "notes")
    sink = ForeachBatch(notes, SCHEMA) if kind == "function" else Foreach(Writer(notes))
    run_over_a_crash(tmp_path, (1, "sink"), sink)
    found = notes.found()
    assert [(number, rows) for _, number, rows in found] == [
        (number, sorted(result(second))) for number, second in ((0, 1), (1, 2), (1, 2), (2, 3))
    ]
    (sink_id,) = {sink_id for sink_id, _, _ in found}
    (checkpoint,) = tmp_path.glob("checkpoint/sparkbeam/id")
    assert sink_id.startswith(f"{checkpoint.read_text()}.")


def test_two_sinks_have_two_ids(tmp_path: Path) -> None:
    notes = Function(tmp_path / "notes")

    def build(p: beam.Pipeline) -> Any:
        rows = counts(p)
        return [rows | name >> ForeachBatch(notes, SCHEMA) for name in ("One", "Other")]

    run(Spark(), tmp_path, build)
    assert len({sink_id for sink_id, _, _ in notes.found()}) == 2


@pytest.mark.parametrize("mode", ["append", "update", "complete"])
def test_a_write_that_is_noted_is_not_repeated(
    mode: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sink = console(output_mode=mode, key=[] if mode == "append" else ["key"])
    run_over_a_crash(tmp_path, (1, "sink"), sink)
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("Batch")] == [
        f"Batch: {number} (Counts)" for number in range(3)
    ]
