"""Files that are read are divided before a pipeline runs, where its workers see the same ones."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.io import iobase
from apache_beam.io.filebasedsource import FileBasedSource
from apache_beam.metrics.metric import Lineage
from in_process_batch import BatchRunner
from noting import found, note, values
from plans import planned

from sparkbeam import SparkRunner
from sparkbeam.errors import PipelineFailed
from sparkbeam.explain import describe
from sparkbeam.options.spark_options import SparkBeamOptions
from sparkbeam.plan.model import Exchange, Plan
from sparkbeam.plan.pardo_functions import dofn_of
from sparkbeam.plan.parsed_stage import parsed
from sparkbeam.upstream import beam_files, parquet
from sparkbeam.upstream.parquet import RowGroupSource


class Lines(FileBasedSource):
    """A source of the user's own."""

    def read_records(self, file_name: str, range_tracker: Any) -> Iterator[str]:
        yield from Path(file_name).read_text().splitlines()


class Divided(Lines):
    """One that divides its files by itself."""

    def split(self, *args: Any, **kwargs: Any) -> Iterator[iobase.SourceBundle]:
        yield from super().split(*args, **kwargs)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in "abc":
        (tmp_path / f"{name}.txt").write_text(f"{name}1\n{name}2\n")
        table = pa.table({"n": [1, 2], "name": [f"{name}1", f"{name}2"]})
        pq.write_table(table, tmp_path / f"{name}.parquet")
    return tmp_path


def is_divided(plan: Plan) -> bool:
    """Whether its tasks begin with parts of files."""
    (stage,) = [one for one in plan.stages if one.exchange is Exchange.IMPULSE]
    return stage.creates


ELSEWHERE = [["--spark_master=spark://host:7077"], ["--spark_connect=sc://host:15002"]]
READS: dict[str, Callable[[Path], Any]] = {
    "text": lambda folder: beam.io.ReadFromText(f"{folder}/*.txt"),
    "own": lambda folder: beam.io.Read(Lines(f"{folder}/*.txt")),
}


@pytest.mark.parametrize(
    ("read", "options", "divided"),
    [
        *(
            (READS["text"], options, True)
            for options in (
                [],
                ["--spark_master=local[2]"],
                ["--spark_master=local-cluster[2,1,1]"],
            )
        ),
        (READS["own"], [], True),
        *((READS["text"], options, False) for options in ELSEWHERE),
        # A relative pattern is for the folder of the workers.
        (lambda folder: beam.io.ReadFromText("*.txt"), [], False),
        (lambda folder: beam.io.Read(Divided(f"{folder}/*.txt")), [], False),
    ],
)
def test_files_of_this_machine_are_divided_at_once(
    folder: Path, read: Any, options: list[str], divided: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    plan = planned(lambda p: p | read(folder), *options)
    assert is_divided(plan) is divided
    assert len(plan.stages) == 1 or not divided


@pytest.mark.parametrize("options", ELSEWHERE)
def test_they_divide_parquet_files_along_row_groups(folder: Path, options: list[str]) -> None:
    plan = planned(lambda p: p | beam.io.ReadFromParquet(f"{folder}/*.parquet"), *options)
    steps = [step for stage in plan.stages for step in parsed(stage).transforms.values()]
    (source,) = filter(None, (beam_files.source_of_read(dofn_of(step)) for step in steps))
    assert isinstance(source, RowGroupSource)


def test_a_session_tells_where_its_workers_are(folder: Path, spark: Any) -> None:
    runner = SparkRunner(spark)
    p = beam.Pipeline(runner, argv=["--spark_master=spark://host:7077"])
    _ = p | beam.io.ReadFromText(f"{folder}/*.txt")
    assert is_divided(runner._plan(p, p.options.view_as(SparkBeamOptions)))


def test_very_many_files_are_left_to_workers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beam_files, "_MOST_PARTS", 2)
    assert not is_divided(planned(lambda p: p | beam.io.ReadFromText(f"{folder}/*.txt")))


def test_a_stream_is_left_as_it_is(folder: Path) -> None:
    plan = planned(lambda p: p | beam.io.ReadFromText(f"{folder}/*.txt"), "--streaming")
    assert len(plan.stages) > 1


def test_files_that_are_not_there_are_no_elements(tmp_path: Path) -> None:
    assert not values(lambda p: p | beam.io.ReadFromText(f"{tmp_path}/*.txt", validate=False))


@pytest.mark.parametrize("read", [beam.io.ReadFromText, beam.io.ReadFromParquet])
def test_files_that_cannot_be_looked_for_are_told_of_by_the_step_that_reads_them(
    read: Callable[..., Any],
) -> None:
    p = beam.Pipeline(BatchRunner())
    rows = p | "Rows" >> read("nowhere://bucket/*", validate=False)
    _ = rows | beam.Map(lambda row: row["name"]) | beam.Map(note)
    with pytest.raises(PipelineFailed, match=r"(?s)Rows/Read.*Unable to get filesystem"):
        p.run().wait_until_finish()


def test_columns_of_divided_files_are_left_out(folder: Path) -> None:
    def build(p: beam.Pipeline) -> Any:
        rows = p | beam.io.ReadFromParquet(f"{folder}/*.parquet")
        return rows | beam.Map(lambda row: row["name"]) | beam.Map(print)

    plan = planned(build)
    assert is_divided(plan)
    assert "ReadFromParquet: 1 of 2 columns" in describe.stages(plan)


def test_files_are_looked_for_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    split, splits = RowGroupSource.split, []

    def noting(source: RowGroupSource, *args: Any) -> Any:
        splits.append(source)
        return split(source, *args)

    monkeypatch.setattr(RowGroupSource, "split", noting)
    monkeypatch.setattr(beam_files, "_is_divided_by_beam", lambda source: True)
    monkeypatch.setattr(parquet, "FileSystems", None)
    test_columns_of_divided_files_are_left_out(folder)
    assert len(splits) == 1


@pytest.mark.parametrize("tasks", ["1", "2", "7"])
@pytest.mark.parametrize("name", ["text", "own"])
def test_each_part_is_read_once(folder: Path, name: str, tasks: str) -> None:
    found.clear()
    p = beam.Pipeline(BatchRunner(), argv=[f"--spark_parallelism={tasks}"])
    _ = p | READS[name](folder) | beam.Map(note)
    result: Any = p.run()
    result.wait_until_finish()
    assert sorted(value for value, *_ in found) == ["a1", "a2", "b1", "b2", "c1", "c2"]
    assert any(str(folder) in one for one in Lineage.query(result.metrics(), Lineage.SOURCE))


def test_a_large_file_is_read_in_parts(tmp_path: Path) -> None:
    lines = [f"{number:0100d}" for number in range(30_000)]
    (tmp_path / "large.txt").write_text("\n".join(lines))
    large = beam.io.ReadFromText(f"{tmp_path}/large.txt")
    assert sorted(values(lambda p: p | large, "--spark_parallelism=3")) == lines


def test_a_reshuffle_behind_a_create_has_nothing_to_spread() -> None:
    plan = planned(
        lambda p: p | beam.Create([1, 2, 3]) | "again" >> beam.Reshuffle() | beam.Map(print)
    )
    assert len(plan.stages) == 1
    assert plan.stages[0].creates


@pytest.mark.parametrize(
    "build",
    [
        lambda p: (
            p | beam.Create([1, 2, 3]) | beam.Map(lambda x: x + 1) | "again" >> beam.Reshuffle()
        ),
        lambda p: p | beam.Create([1]) | "again" >> beam.Reshuffle(),
    ],
)
def test_other_reshuffles_stay(build: Callable[[beam.Pipeline], Any]) -> None:
    assert len(planned(lambda p: build(p) | beam.Map(print)).stages) == 2
