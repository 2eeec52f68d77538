"""Beam's writes of files in a stream: each pane has its files once, wherever the query crashes.

In process, so that a query crashes behind each step of each micro-batch.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import StrUtf8Coder
from apache_beam.io import fileio
from apache_beam.io.filebasedsink import FileBasedSink
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pvalue import PCollection
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.trigger import (
    AccumulationMode,
    AfterCount,
    AfterWatermark,
    Repeatedly,
)
from apache_beam.transforms.window import FixedWindows, GlobalWindows, TimestampedValue
from in_process import Crashes, Spark, StreamingRunner
from word_files import AVRO, COLUMNS, read

from sparkbeam.worker.connectors import pane_files

Sink = Callable[[Path], Any]
FIRST, SECOND = ["a0", "b0", "a5", "b5"], ["a10", "b10", "a15", "b15"]
LATE, LATER = ["late"], ["later"]
"""Elements of two windows, and of two more panes of the first one."""


def late_words() -> TestStream:
    stream = TestStream()
    for second in range(0, 20, 5):
        words = [TimestampedValue(f"{letter}{second}", second) for letter in "ab"]
        stream = stream.advance_watermark_to(second).add_elements(words)
    for watermark, word in ((30, "late"), (40, "later")):
        late = TimestampedValue(word, 3)
        stream = stream.advance_watermark_to(watermark).add_elements([late])
    return stream.advance_watermark_to_infinity()


def run(
    spark: Spark,
    folder: Path,
    sink: Sink,
    convert: Any = None,
    window: Any = None,
    mode: Any = AccumulationMode.DISCARDING,
) -> None:
    options = PipelineOptions(["--streaming", f"--checkpoint_location={folder / 'checkpoint'}"])
    windows = window or beam.WindowInto(
        FixedWindows(10),
        trigger=AfterWatermark(late=AfterCount(1)),
        allowed_lateness=100,
        accumulation_mode=mode,
    )
    with beam.Pipeline(runner=StreamingRunner(spark), options=options) as p:
        words: PCollection[Any] = p | late_words() | "Windows" >> windows
        if convert is not None:
            words = words | convert
        _ = words | "Write" >> sink(folder / "out")


def written(folder: Path) -> dict[str, list[str]]:
    """The words of all files, hidden ones and those of folders included, by their name."""
    return {path.name: read(path) for path in sorted((folder / "out").rglob("*")) if path.is_file()}


ROWS = beam.Map(lambda word: beam.Row(word=str(word)))
DICTS = beam.Map(lambda word: {"word": word})


def names(prefix: str, suffix: str = "") -> list[str]:
    """Of the files of two windows, and of two more panes of the first one, by a template."""
    windows = ["[0.0, 10.0)", "[0.0, 10.0)", "[0.0, 10.0)", "[10.0, 20.0)"]
    panes = ["", "-pane-1", "-pane-2", ""]
    return [
        f"{prefix}-{window}-00000-of-00001{pane}{suffix}"
        for window, pane in zip(windows, panes, strict=True)
    ]


FIRST_WINDOW = "1970-01-01T00:00:00-1970-01-01T00:00:10"
SECOND_WINDOW = "1970-01-01T00:00:10-1970-01-01T00:00:20"
BY_WINDOW = [FIRST, LATE, LATER, SECOND]


def text(**options: Any) -> Sink:
    """A sink of text with options."""
    return lambda out: beam.io.WriteToText(str(out / "words"), **options)


def by_window(
    write: Any, suffix: str, convert: Any = None, **options: Any
) -> tuple[Sink, Any, dict[str, list[str]]]:
    """A sink whose files are those of the windows."""
    files = dict(zip(names("words", suffix), BY_WINDOW, strict=True))
    return lambda out: write(str(out / "words"), file_name_suffix=suffix, **options), convert, files


SINKS: dict[str, tuple[Sink, Any, dict[str, list[str]]]] = {
    "text": by_window(beam.io.WriteToText, ".txt.gz"),
    "parquet of dicts": by_window(beam.io.WriteToParquet, ".parquet", DICTS, schema=COLUMNS),
    "parquet of rows": by_window(beam.io.WriteToParquet, ".parquet", ROWS),
    "avro": by_window(beam.io.WriteToAvro, ".avro", DICTS, schema=AVRO),
    "records of TensorFlow": by_window(beam.io.WriteToTFRecord, ".tfrecord", beam.Map(str.encode)),
    "json": (
        lambda out: beam.io.WriteToJson(str(out / "words"), num_shards=1),
        ROWS,
        {
            f"words-{FIRST_WINDOW}-00000-of-00001": FIRST,
            f"words-{FIRST_WINDOW}-00000-of-00001-pane-1": LATE,
            f"words-{FIRST_WINDOW}-00000-of-00001-pane-2": LATER,
            f"words-{SECOND_WINDOW}-00000-of-00001": SECOND,
        },
    ),
    "files by destination": (
        lambda out: fileio.WriteToFiles(
            str(out),
            destination=lambda word: word[0],
            file_naming=fileio.destination_prefix_naming(".txt"),
            shards=2,
        ),
        None,
        {
            f"a-{FIRST_WINDOW}-00000-of-00002.txt": ["a0"],
            f"a-{FIRST_WINDOW}-00001-of-00002.txt": ["a5"],
            f"b-{FIRST_WINDOW}-00000-of-00002.txt": ["b0"],
            f"b-{FIRST_WINDOW}-00001-of-00002.txt": ["b5"],
            f"l-{FIRST_WINDOW}-00000-of-00001.txt": LATE,
            f"l-{FIRST_WINDOW}-00000-of-00001-pane-1.txt": LATER,
            f"a-{SECOND_WINDOW}-00000-of-00002.txt": ["a10"],
            f"a-{SECOND_WINDOW}-00001-of-00002.txt": ["a15"],
            f"b-{SECOND_WINDOW}-00000-of-00002.txt": ["b10"],
            f"b-{SECOND_WINDOW}-00001-of-00002.txt": ["b15"],
        },
    ),
}


@pytest.mark.part(3)
@pytest.mark.parametrize("kind", SINKS)
def test_each_pane_has_its_files_once_wherever_the_query_crashes(tmp_path: Path, kind: str) -> None:
    sink, convert, expected = SINKS[kind]
    crashes = Crashes()
    spark = Spark(crashes)
    crashes.until_it_ends(lambda: run(spark, tmp_path, sink, convert))
    assert written(tmp_path) == expected
    assert not [path for path in (tmp_path / "out").rglob("*") if path.is_dir()]


def test_a_pane_of_an_accumulating_trigger_has_all_elements_of_its_window(tmp_path: Path) -> None:
    sink = SINKS["text"][0]
    run(Spark(), tmp_path, sink, mode=AccumulationMode.ACCUMULATING)
    panes = [FIRST, [*FIRST, *LATE], [*FIRST, *LATE, *LATER], SECOND]
    assert written(tmp_path) == dict(zip(names("words", ".txt.gz"), panes, strict=True))


def test_a_function_that_names_files_gets_the_pane(tmp_path: Path) -> None:
    def name(
        window: Any, pane: Any, shard: int, shards: int, compression: str, destination: Any
    ) -> str:
        return f"{window.start.micros}/{pane.index}-{shard}-of-{shards}"

    out = tmp_path / "out"
    run(Spark(), tmp_path, lambda out: fileio.WriteToFiles(str(out), name, shards=1))
    found = {str(path.relative_to(out)): read(path) for path in out.rglob("*-of-*")}
    assert found == {
        "0/0-0-of-1": FIRST,
        "0/1-0-of-1": LATE,
        "0/2-0-of-1": LATER,
        "10000000/0-0-of-1": SECOND,
    }


@pytest.mark.parametrize(
    ("options", "of_late_pane"),
    [
        ({"num_shards": 2}, {"00000-of-00002": LATE, "00001-of-00002": []}),
        ({"num_shards": 2, "skip_if_empty": True}, {"00000-of-00001": LATE}),
        ({"num_shards": 1, "header": "word"}, {"00000-of-00001": ["word", *LATE]}),
    ],
)
def test_text_has_the_shards_that_its_arguments_ask_for(
    tmp_path: Path, options: dict[str, Any], of_late_pane: dict[str, list[str]]
) -> None:
    run(Spark(), tmp_path, text(**options))
    assert {
        name.removeprefix("words-[0.0, 10.0)-").removesuffix("-pane-1"): words
        for name, words in written(tmp_path).items()
        if name.endswith("-pane-1")
    } == of_late_pane


def test_full_files_are_followed_by_others(tmp_path: Path) -> None:
    run(Spark(), tmp_path, text(max_records_per_shard=3))
    assert {name: words for name, words in written(tmp_path).items() if "[10.0" in name} == {
        "words-[10.0, 20.0)-00000-of-00002": SECOND[:3],
        "words-[10.0, 20.0)-00001-of-00002": SECOND[3:],
    }


def test_names_of_files_with_a_uuid_repeat_with_the_micro_batch(tmp_path: Path) -> None:
    sink = text(shard_name_template="-U-SSSSS-of-NNNNN")
    crashes = Crashes()
    spark = Spark(crashes)
    crashes.until_it_ends(lambda: run(spark, tmp_path, sink))
    assert sorted(written(tmp_path).values()) == sorted(BY_WINDOW)


def test_a_triggering_frequency_makes_windows(tmp_path: Path) -> None:
    sink = text(triggering_frequency=20)
    run(Spark(), tmp_path, sink, window=beam.WindowInto(GlobalWindows()))
    assert written(tmp_path) == {"words-[0.0, 20.0)-00000-of-00001": [*FIRST, *SECOND]}


AT_END: dict[str, tuple[list[str], Any, Sink, dict[str, list[str]]]] = {
    "files by destination": (
        FIRST,
        None,
        lambda out: fileio.WriteToFiles(str(out), shards=1),
        {"output-00000-of-00001": FIRST},
    ),
    "text": (
        FIRST,
        None,
        text(file_name_suffix=".txt", num_shards=2),
        {"words-00000-of-00002.txt": FIRST[::2], "words-00001-of-00002.txt": FIRST[1::2]},
    ),
    "parquet": (
        FIRST,
        DICTS,
        SINKS["parquet of dicts"][0],
        {"words-00000-of-00001.parquet": FIRST},
    ),
    "windows": (
        FIRST,
        beam.WindowInto(FixedWindows(10)),
        text(shard_name_template=""),
        {"words": FIRST},
    ),
    "nothing": (
        [],
        None,
        text(num_shards=2, header="word"),
        {"words-00000-of-00002": ["word"], "words-00001-of-00002": ["word"]},
    ),
    "no file of nothing": ([], None, text(skip_if_empty=True), {}),
}
"""Bounded elements, what converts them, their sink, and the files, by kind."""


@pytest.mark.part(4)
@pytest.mark.parametrize("kind", AT_END)
def test_a_bounded_input_is_written_at_its_end_wherever_the_query_crashes(
    tmp_path: Path, kind: str
) -> None:
    elements, convert, sink, expected = AT_END[kind]

    def run_bounded() -> None:
        options = PipelineOptions(["--streaming", f"--checkpoint_location={tmp_path / 'c'}"])
        with beam.Pipeline(runner=StreamingRunner(spark), options=options) as p:
            words = p | beam.Create(elements, reshuffle=False)
            if convert is not None:
                words = words | "Convert" >> convert
            _ = words | "Write" >> sink(tmp_path / "out")

    crashes = Crashes()
    spark = Spark(crashes)
    crashes.until_it_ends(run_bounded)
    assert written(tmp_path) == expected
    assert not [path for path in (tmp_path / "out").rglob("*") if path.is_dir()]


def test_panes_of_the_global_window_are_counted(tmp_path: Path) -> None:
    window = beam.WindowInto(
        GlobalWindows(),
        trigger=Repeatedly(AfterCount(5)),
        accumulation_mode=AccumulationMode.DISCARDING,
    )
    run(Spark(), tmp_path, lambda out: fileio.WriteToFiles(str(out), shards=1), window=window)
    found = written(tmp_path)
    assert sorted(word for words in found.values() for word in words) == sorted(
        [*FIRST, *SECOND, *LATE, *LATER]
    )
    assert [*found] == [
        "output-00000-of-00001",
        *(f"output-00000-of-00001-pane-{number}" for number in range(1, len(found))),
    ]


class Lines(FileBasedSink):
    """A user's sink."""

    def write_record(self, file_handle: Any, value: str) -> None:
        file_handle.write(f"{value}\n".encode())


def test_a_sink_of_the_user_has_the_window_in_its_names(tmp_path: Path) -> None:
    def sink(out: Path) -> Any:
        return beam.io.Write(Lines(str(out / "words"), StrUtf8Coder(), mime_type="text/plain"))

    run(Spark(), tmp_path, sink)
    assert written(tmp_path) == dict(zip(names("words"), BY_WINDOW, strict=True))


def test_a_write_that_fails_names_its_step_and_leaves_nothing(tmp_path: Path) -> None:
    class Failing(fileio.TextSink):
        def write(self, record: str) -> None:
            raise OSError(f"no room for {record}")

    with pytest.raises(Exception, match=r"Step 'Write/WritePanes' failed: OSError: no room for a0"):
        run(Spark(), tmp_path, lambda out: fileio.WriteToFiles(str(out), sink=lambda _: Failing()))
    assert not [*(tmp_path / "out").rglob("*")]


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/out/words-00000-of-00001", "/out/words-00000-of-00001-pane-7"),
        ("/out/words.json.gz", "/out/words-pane-7.json.gz"),
        ("/out.d/00:00.500000-00000", "/out.d/00:00.500000-00000-pane-7"),
    ],
)
def test_the_number_of_a_pane_stands_before_the_extensions(path: str, found: str) -> None:
    def pane(index: int) -> Any:
        return beam.utils.windowed_value.PaneInfo(index == 0, False, 1, index, 0)

    assert pane_files.of_pane(path, pane(7)) == found
    assert pane_files.of_pane(path, pane(0)) == path
