"""Beam's own reads of files that arrive while a pipeline runs."""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
import streams
from apache_beam.io import fileio
from apache_beam.io.avroio import ReadAllFromAvroContinuously
from apache_beam.io.textio import ReadAllFromTextContinuously
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import FixedWindows
from apache_beam.utils.timestamp import Timestamp
from in_process import Spark, StreamingRunner
from word_files import place, read

from sparkbeam.errors import PipelineFailed


def noted(folder: Path) -> dict[str, list[str]]:
    return {name: sorted(words) for name, words in streams.notes(folder / "seen").items()}


def note(folder: Path, name: str) -> Any:
    return f"Note {name}" >> beam.Map(lambda word: streams.note(folder / "seen", name, word))


def test_files_that_arrive_are_read_and_written_once_and_changed_ones_again_if_asked_for(
    spark: Any, tmp_path: Path
) -> None:
    pattern = str(tmp_path / "in/*.txt")
    every: dict[str, Any] = {"interval": 0.2, "start_timestamp": Timestamp.now()}
    place(tmp_path / "in/0.txt", "a", "b")

    def build(p: beam.Pipeline) -> None:
        matches = {
            "once": fileio.MatchContinuously(pattern, **every),
            "changed": fileio.MatchContinuously(pattern, match_updated_files=True, **every),
            "each poll": fileio.MatchContinuously(pattern, has_deduplication=False, **every),
        }
        for name, match in matches.items():
            _ = (
                p
                | f"Match {name}" >> match
                | f"Open {name}" >> fileio.ReadMatches()
                | f"Read {name}" >> beam.FlatMap(lambda file: file.read_utf8().split())
                | note(tmp_path, name)
            )
        lines = p | ReadAllFromTextContinuously(pattern, **every)
        _ = lines | note(tmp_path, "lines")
        _ = lines | beam.WindowInto(FixedWindows(1)) | fileio.WriteToFiles(str(tmp_path / "out"))

    def done() -> bool:
        found = noted(tmp_path)
        everywhere = set.intersection(*map(set, found.values())) if len(found) == 4 else set()
        if "b" in everywhere and not (tmp_path / "in/1.txt").exists():
            place(tmp_path / "in/1.txt", "c")
        if "c" in everywhere and read(tmp_path / "in/0.txt") != ["changed"]:
            place(tmp_path / "in/0.txt", "changed")
        return {"b", "c"} <= {*written()} and "changed" in found["changed"]

    def written() -> list[str]:
        return [word for path in (tmp_path / "out").glob("[!.]*") for word in read(path)]

    streams.run_until(spark, tmp_path / "checkpoint", build, done)
    assert sorted(written()) == ["a", "b", "c"]
    found = noted(tmp_path)
    assert found["once"] == found["lines"] == ["a", "b", "c"]
    assert found["changed"] == ["a", "b", "c", "changed"]
    assert set(found["each poll"]) == {"a", "b", "c", "changed"}
    assert found["each poll"].count("a") > 1


def test_each_run_of_what_is_there_reads_the_files_that_are_new(spark: Any, tmp_path: Path) -> None:
    def build(p: beam.Pipeline) -> None:
        def paths(name: str) -> Any:
            match = fileio.MatchContinuously(str(tmp_path / f"in/*.{name}"), interval=3600)
            return p | f"Match {name}" >> match | f"Path {name}" >> beam.Map(lambda m: m.path)

        _ = paths("txt") | beam.io.ReadAllFromText() | note(tmp_path, "text")
        tables = paths("parquet") | beam.io.ReadAllFromParquet()
        records = paths("avro") | beam.io.ReadAllFromAvro()
        more = p | ReadAllFromAvroContinuously(str(tmp_path / "in/*.avro"), interval=3600)
        for name, rows in {"parquet": tables, "avro": records, "more avro": more}.items():
            _ = rows | f"Word {name}" >> beam.Map(lambda row: row["word"]) | note(tmp_path, name)

    words = "abc"
    for number, some in enumerate((2, 3)):
        for extension in ("txt", "parquet", "avro"):
            place(tmp_path / f"in/{number}.{extension}", *words[2 * number : some])
        streams.run_available(spark, tmp_path / "checkpoint", build)
        kinds = ["avro", "more avro", "parquet", "text"]
        assert noted(tmp_path) == {kind: [*words[:some]] for kind in kinds}


def run_in_process(folder: Path, build: Callable[[beam.Pipeline], None]) -> None:
    options = PipelineOptions(["--streaming", f"--checkpoint_location={folder / 'checkpoint'}"])
    runner = StreamingRunner(Spark(repeatable=False))
    with beam.Pipeline(runner=runner, options=options) as p:
        build(p)


@pytest.mark.parametrize(
    ("start", "stop", "polls"), [(-0.5, 1, 6), (1, 2, 4), (0, 0, 0)], ids=["past", "future", "none"]
)
def test_polls_take_place_from_the_start_to_the_stop(
    tmp_path: Path, start: float, stop: float, polls: int
) -> None:
    place(tmp_path / "in/0.txt", "a")
    now = Timestamp.now()

    def build(p: beam.Pipeline) -> None:
        for name, deduplicates in {"once": True, "each poll": False}.items():
            match = fileio.MatchContinuously(
                str(tmp_path / "in/*.txt"),
                interval=0.25,
                has_deduplication=deduplicates,
                start_timestamp=now + start,
                stop_timestamp=now + stop,
            )
            paths = p | name >> match | f"Path {name}" >> beam.Map(lambda m: m.path)
            _ = paths | note(tmp_path, name)

    run_in_process(tmp_path, build)
    found = {name: len(paths) for name, paths in noted(tmp_path).items()}
    assert found == ({"once": 1, "each poll": polls} if polls else {})
    assert polls == 0 or Timestamp.now() >= now + start


@pytest.mark.parametrize(
    ("pattern", "treatment", "fails"),
    [
        ("*.txt", fileio.EmptyMatchTreatment.ALLOW, False),
        ("*.txt", fileio.EmptyMatchTreatment.ALLOW_IF_WILDCARD, False),
        ("*.txt", fileio.EmptyMatchTreatment.DISALLOW, True),
        ("one.txt", fileio.EmptyMatchTreatment.ALLOW, False),
    ],
)
def test_a_pattern_that_matches_nothing_fails_where_it_is_told_to(
    tmp_path: Path, pattern: str, treatment: str, fails: bool
) -> None:
    def build(p: beam.Pipeline) -> None:
        _ = p | fileio.MatchContinuously(
            str(tmp_path / pattern),
            interval=0.1,
            start_timestamp=Timestamp.now(),
            stop_timestamp=Timestamp.now() + 0.2,
            empty_match_treatment=treatment,
        )

    text = r"Step 'MatchContinuously/.*Empty match for pattern"
    with pytest.raises(PipelineFailed, match=text) if fails else nullcontext():
        run_in_process(tmp_path, build)
