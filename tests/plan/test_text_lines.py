"""Lines of text files come as columns, and are those of Beam's own source."""

import gzip
import random
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.coders import coders
from apache_beam.io import iobase
from apache_beam.io.filebasedsource import _SingleFileSource
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.range_trackers import OffsetRangeTracker
from apache_beam.io.textio import _TextSource
from in_process_batch import BatchRunner
from noting import noted
from plans import planned

from sparkbeam.errors import PipelineFailed
from sparkbeam.explain import describe
from sparkbeam.upstream import text

ENDS = [b"\n", b"\n", b"\r\n", b"\r\n", b"\r", b"\n\n", b"\r\r\n"]
PIECES = [*ENDS, b"a", b",", b" ", b"h", "é".encode(), "🌳".encode(), b"\0", b"x" * 40]
INVALID = [b"\xc3", b"\xed\xa0\x80", b"\xff", b"\xc0\x80", b"\xf4\x90\x80\x80"]
HEADERS: list[Any] = [None, None, lambda line: line.startswith("h")]


def source_of(chance: random.Random, path: Path) -> _TextSource:
    lines, size = chance.choice([0, 0, 0, 1, 2, 3]), chance.choice([1, 3, 8192])
    given: dict[str, Any] = {"skip_header_lines": lines, "buffer_size": size}
    given["header_processor_fns"] = chance.choice(HEADERS), None
    how = CompressionTypes.AUTO, chance.random() < 0.7, coders.StrUtf8Coder()
    return _TextSource(str(path), 0, *how, **given)


def outcome(lines: Callable[..., Any], *given: Any) -> tuple[list[str], str]:
    """The lines before a failure, and the failure."""
    found: list[str] = []
    try:
        for some in lines(*given):
            found += some.to_pylist() if isinstance(some, pa.Array) else some
    except UnicodeDecodeError as error:
        return found, repr(error)
    return found, ""


def in_columns(source: _TextSource, start: int, stop: float) -> Any:
    path = source._pattern.get()
    file = _SingleFileSource(source, path, start, stop, splittable=stop != float("inf"))
    part = iobase._SDFBoundedSourceRestriction(iobase.SourceBundle(1, file, start, stop))
    return text.lines_of(part)


def by_beam(source: _TextSource, start: int, stop: float) -> Any:
    tracker = OffsetRangeTracker(start, stop)
    return ([line] for line in source.read_records(source._pattern.get(), tracker))


@pytest.mark.parametrize("end", ["txt", "gz"])
@pytest.mark.parametrize("seed", range(4))
def test_lines_of_ranges_are_those_of_beam(
    seed: int, end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    path = tmp_path / f"lines.{end}"
    for _ in range(200):
        pieces = PIECES + INVALID if chance.random() < 0.2 else PIECES
        data = b"".join(chance.choices(pieces, k=chance.choice([1, 2, 5, 30])))
        path.write_bytes(gzip.compress(data) if end == "gz" else data)
        source = source_of(chance, path)
        monkeypatch.setattr(text, "READ_BYTES", chance.choice([1, 2, 7, 1000]))
        monkeypatch.setattr(text, "READ_BEYOND", chance.choice([1, 3, 1000]))
        monkeypatch.setattr(text, "_MOST_BYTES", chance.choice([10, 1000]))
        size = len(data)
        cuts = sorted(chance.sample(range(1, size), min(size - 1, chance.choice([0, 1, 2, 5, 9]))))
        bounds = [0, *cuts, chance.choice([size, float("inf")])]
        for start, stop in pairwise([0, float("inf")] if end == "gz" else bounds):
            given = source, int(start), stop
            assert outcome(in_columns, *given) == outcome(by_beam, *given), data


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in "ab":
        rows = "".join(f"{n},{name},{n / 4}\r\n" for n in range(200))
        (tmp_path / f"{name}.csv").write_text(f"id,name,price\n{rows}7,{name},8.5", newline="")
    (tmp_path / "empty.csv").touch()
    (tmp_path / "z.csv.gz").write_bytes(gzip.compress(b"id,name,price\n9,z,1.5\n"))
    return tmp_path


@pytest.mark.parametrize(
    ("given", "are_columns"),
    [
        ({"skip_header_lines": 1}, True),
        ({"strip_trailing_newlines": False}, True),
        ({"coder": coders.BytesCoder()}, False),
        ({"delimiter": b","}, False),
        ({"escapechar": b"\\"}, False),
    ],
)
def test_lines_in_utf8_are_columns(given: Any, are_columns: bool, folder: Path) -> None:
    def build(p: beam.Pipeline) -> Any:
        lines = p | beam.io.ReadFromText(f"{folder}/*.csv*", **given)
        return lines | "Map" >> beam.Map(lambda x: (x, 1))

    for options in ([], ["--spark_master=spark://host:7077"]):
        shown = describe.stages(planned(build, *options))
        assert ("Map: columns" in shown) == are_columns
    assert noted(build) == noted(build, "--columns=off")


def test_fields_of_lines_stay_columns(folder: Path) -> None:
    def build(pipeline: beam.Pipeline) -> Any:
        return (
            pipeline
            | beam.io.ReadFromText(f"{folder}/*.csv*", skip_header_lines=1)
            | "Split" >> beam.Map(lambda line: line.split(","))
            | "Filter" >> beam.Filter(lambda fields: int(fields[0]) > 5)
            | "Pair" >> beam.Map(lambda fields: (fields[1], float(fields[2])))
        )

    shown = describe.stages(planned(build))
    assert all(f"{step}: columns" in shown for step in ("Split", "Filter", "Pair"))
    assert noted(build) == noted(build, "--columns=off")


def test_failures_of_lines_are_those_of_elements(folder: Path) -> None:
    (folder / "bad.csv").write_bytes(b"good\nb\xe9d\n")
    told = []
    for options in ([], ["--columns=off"]):
        pipeline = beam.Pipeline(BatchRunner(), argv=options)
        _ = pipeline | "Lines" >> beam.io.ReadFromText(f"{folder}/bad.csv") | beam.Map(len)
        with pytest.raises(PipelineFailed) as failed:
            pipeline.run().wait_until_finish()
        told.append(str(failed.value).splitlines()[0])
    assert told[0] == told[1]
    assert "Lines/Read" in told[0]
    assert "UnicodeDecodeError" in told[0]
