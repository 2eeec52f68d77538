"""Output modes of sinks, micro-batch by micro-batch, with crashes."""

import random
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.coders import coder_impl
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, Repeatedly
from apache_beam.transforms.window import GlobalWindow, GlobalWindows, TimestampedValue
from apache_beam.utils.timestamp import MIN_TIMESTAMP
from apache_beam.utils.windowed_value import WindowedValue
from in_process import Batch, Crashes, Point, Spark, rounds, streaming_pipeline
from pyspark.sql.types import LongType, StringType, StructField, StructType

from sparkbeam import ConfigurationError, PipelineFailed
from sparkbeam.connectors.delivery import Delivery
from sparkbeam.connectors.schemas import arrow_schema
from sparkbeam.errors import CheckpointFailed, UnsupportedTransform
from sparkbeam.io import ForeachBatch, WriteToSpark
from sparkbeam.plan.model import SparkSink
from sparkbeam.plan.spark_io import WriteSpec
from sparkbeam.wire.failure import FailureReports
from sparkbeam.wire.messages import pack, unpack
from sparkbeam.wire.rows import PLAIN_CELL
from sparkbeam.worker.connectors.sink_cells import _CELLS, cell_of

SCHEMA = StructType([StructField("key", StringType()), StructField("count", LongType())])
SECONDS = 4


def behind_a_sink(crashes: Crashes) -> Callable[[Point], None]:
    """Crashes a query where a sink has written, and where all of a micro-batch's have."""
    return lambda point: crashes(point) if point[1] in ("written", "sink") else None


@rounds(1)
def run(spark: Spark, folder: Path, build: Callable[[beam.Pipeline], Any]) -> None:
    """Run a pipeline with a micro-batch for each event."""
    with streaming_pipeline(spark, folder / "checkpoint", "--shards=2") as p:
        build(p)


def begin(folder: Path, sink: Any) -> None:
    """Run the counts into a sink until the second micro-batch is committed."""
    with pytest.raises(PipelineFailed):
        run(Spark(Crashes((1, "committed"))), folder, lambda p: counts(p) | sink)


def events() -> TestStream:
    """In second n the keys 0 to n come, each n times."""
    stream = TestStream()
    for second in range(1, SECONDS):
        stream = stream.add_elements(
            [TimestampedValue(f"key {key}", second) for key in range(second)] * second
        )
    return stream.advance_watermark_to_infinity()


def counts(p: beam.Pipeline) -> beam.PCollection:
    return (
        p
        | events()
        | beam.WindowInto(
            GlobalWindows(),
            trigger=Repeatedly(AfterCount(1)),
            accumulation_mode=AccumulationMode.ACCUMULATING,
        )
        | beam.combiners.Count.PerElement()
        | beam.MapTuple(lambda key, count: {"key": key, "count": count})
    )


def result(second: int) -> list[tuple[str, int]]:
    """The counts after a second."""
    return [(f"key {key}", sum(range(key + 1, second + 1))) for key in range(second)]


def tables(text: str) -> list[list[tuple[Any, ...]]]:
    """The tables that the console has shown, each but once."""
    found = re.findall(r"-{43}\nBatch: (\d+) \((.*)\)\n-{43}\n((?:\(.*\n)*)", text)
    assert {label for _, label, _ in found} == {"Counts"}
    numbers = [int(number) for number, _, _ in found]
    assert numbers == sorted(numbers)
    shown = {number: rows for number, _, rows in found}
    return [[eval(row) for row in rows.splitlines()] for rows in shown.values()]


def console(label: str = "Counts", schema: StructType = SCHEMA, **more: Any) -> Any:
    return label >> WriteToSpark("console", None, schema, **{"key": ["key"], **more})


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str]) -> Callable[[], list[Any]]:
    return lambda: tables(capsys.readouterr().out)


def test_rows_are_in_the_order_in_which_they_were_written() -> None:
    """Spark hands on what passes a shuffle as it comes; a task spreads its cells over shards."""
    schema = arrow_schema(SCHEMA)

    def cell(number: int) -> bytes:
        rows = [(f"key {number % 3}", 2 * number), (f"key {number % 3}", 2 * number + 1)]
        batch = pa.record_batch([*map(list, zip(*rows, strict=True))], schema=schema)
        stream = coder_impl.create_OutputStream()
        _CELLS.get_impl().encode_to_stream(
            WindowedValue(cell_of(batch), MIN_TIMESTAMP, (GlobalWindow(),)), stream, True
        )
        return PLAIN_CELL + stream.get()

    messages = []
    for number in range(0, 24, 4):  # A task sends two messages at once, to two shards.
        for first in (number, number + 1):
            rows = [(b"", each, cell(each)) for each in (first, first + 2)]
            messages.append({"round": number // 12, "tag": 1, "sender": 0, "value": pack(rows)})
    random.Random(0).shuffle(messages)
    spec = WriteSpec("console", schema=SCHEMA.json(), key=("key",))
    values = Batch(pa.Table.from_pylist(messages), Spark())
    delivery = Delivery(SparkSink("Counts", "Counts", spec, (1,)), unpack, FailureReports())
    assert Delivery(
        SparkSink("Counts", "Counts", replace(spec, key=()), (1,)), unpack, FailureReports()
    ).table(values)["count"].to_pylist() == list(range(48))
    assert delivery.table(values).to_pydict() == {
        "key": ["key 0", "key 1", "key 2"],
        "count": [43, 45, 47],
    }


@pytest.mark.parametrize("mode", ["append", "update", "complete"])
def test_sinks_of_one_composite_write_each_for_itself(
    mode: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Store(beam.PTransform[Any, Any]):
        def expand(self, rows: Any) -> Any:
            key = [] if mode == "append" else ["key"]
            for name in ("One", "Other"):
                stored = rows | console(name, output_mode=mode, key=key)
            return stored

    def build(p: beam.Pipeline) -> Any:
        return counts(p) | "Counts" >> Store()

    run(Spark(), tmp_path, build)
    shown = re.findall(r"Batch: (\d+) \(Counts\)\n-+\n((?:\(.*\n)*)", capsys.readouterr().out)
    assert len(shown) == 2 * (SECONDS - 1)
    assert shown[::2] == shown[1::2]


class TestComplete:
    def test_each_micro_batch_shows_all_keys_sorted(
        self, tmp_path: Path, shown: Callable[[], Any]
    ) -> None:
        run(Spark(), tmp_path, lambda p: counts(p) | console(output_mode="complete"))
        assert shown() == [result(n) for n in range(1, SECONDS)]

    def test_a_result_goes_on_where_a_crash_has_left_it(
        self, tmp_path: Path, shown: Callable[[], Any]
    ) -> None:
        spark = Spark(behind_a_sink(crashes := Crashes()))
        crashes.until_it_ends(
            lambda: run(spark, tmp_path, lambda p: counts(p) | console(output_mode="complete"))
        )
        assert len(crashes.points) >= SECONDS
        assert shown() == [result(n) for n in range(1, SECONDS)]

    def test_rows_are_in_the_order_that_is_asked_for(
        self, tmp_path: Path, shown: Callable[[], Any]
    ) -> None:
        sink = console(output_mode="complete", order_by=["count desc", "key"])
        run(Spark(), tmp_path, lambda p: counts(p) | sink)
        assert shown()[-1] == sorted(result(SECONDS - 1), key=lambda row: (-row[1], row[0]))

    def test_nulls_are_one_key(self, tmp_path: Path, shown: Callable[[], Any]) -> None:
        events = TestStream().add_elements([1]).add_elements([2])

        def build(p: beam.Pipeline) -> Any:
            rows = p | events.advance_watermark_to_infinity() | beam.Map(lambda n: {"count": n})
            return rows | console(output_mode="complete")

        run(Spark(), tmp_path, build)
        assert shown() == [[(None, 1)], [(None, 2)]]

    @pytest.mark.parametrize(
        ("schema", "more", "said"),
        [
            (SCHEMA, {"key": ["key", "count"]}, "sink 'Counts': its key was key and is key, count"),
            (StructType([*SCHEMA.fields]).add("more", "long"), {}, "sink 'Counts': its schema was"),
            (SCHEMA, {"label": "Others"}, "sink 'Counts' with output_mode='complete' is gone"),
        ],
    )
    def test_a_result_is_not_gone_on_with_as_another(
        self, schema: StructType, more: dict[str, Any], said: str, tmp_path: Path
    ) -> None:
        begin(tmp_path, console(output_mode="complete"))
        sink = console(schema=schema, output_mode="complete", **more)
        with pytest.raises(ConfigurationError, match=re.escape(said)):
            run(Spark(), tmp_path, lambda p: counts(p) | sink)

    def test_a_sink_that_has_appended_has_no_result(self, tmp_path: Path) -> None:
        begin(tmp_path, console(key=[]))
        with pytest.raises(ConfigurationError, match="'Counts' did not have output_mode='compl"):
            run(Spark(), tmp_path, lambda p: counts(p) | console(output_mode="complete"))

    def test_results_whose_names_differ_in_a_line_of_code_are_an_error(
        self, tmp_path: Path
    ) -> None:
        class Counts(beam.PTransform[Any, Any]):
            def expand(self, rows: Any) -> Any:
                return rows | console(output_mode="complete")

        def build(p: beam.Pipeline) -> Any:
            rows = counts(p)
            _ = rows | "Of <lambda at a.py:1>" >> Counts()
            return rows | "Of <lambda at a.py:2>" >> Counts()

        with pytest.raises(UnsupportedTransform) as refused:
            run(Spark(), tmp_path, build)
        assert str(refused.value) == (
            "Transform 'Of <lambda at a.py:2>' cannot run on Spark: a checkpoint cannot "
            "distinguish the complete results of 'Of <lambda at a.py:1>/Counts' and "
            "'Of <lambda at a.py:2>/Counts', whose names differ only in a line of code. "
            "Give the transform around one of them a label."
        )

    @pytest.mark.parametrize("damage", ["missing", "damaged"])
    def test_a_lost_result_is_told_and_not_begun_anew(self, damage: str, tmp_path: Path) -> None:
        begin(tmp_path, console(output_mode="complete"))
        for path in (tmp_path / "checkpoint").glob("sparkbeam/results/*/*"):
            path.unlink() if damage == "missing" else path.write_bytes(path.read_bytes()[:99])
        with pytest.raises(CheckpointFailed, match=rf"results/.* is {damage}"):
            run(Spark(), tmp_path, lambda p: counts(p) | console(output_mode="complete"))


class TestUpdate:
    def test_each_micro_batch_shows_the_keys_that_it_has_changed(
        self, tmp_path: Path, shown: Callable[[], Any]
    ) -> None:
        changes = TestStream().add_elements([1, 2, 11]).add_elements([21, 3])

        def build(p: beam.Pipeline) -> Any:
            numbers = p | changes.advance_watermark_to_infinity()
            rows = numbers | beam.Map(lambda n: {"key": str(n % 10), "count": n})
            return rows | console(output_mode="update", order_by=["key"])

        run(Spark(), tmp_path, build)
        assert shown() == [[("1", 11), ("2", 2)], [("1", 21), ("3", 3)]]


class TestDelta:
    @pytest.mark.parametrize("mode", ["append", "complete"])
    def test_a_crash_leaves_one_version_a_micro_batch(self, mode: str, tmp_path: Path) -> None:
        """Without transaction ids a micro-batch that runs again makes another version."""

        spark = Spark(behind_a_sink(crashes := Crashes()))
        key = ["key"] if mode == "complete" else []
        sink = WriteToSpark("delta", {"path": "/t"}, SCHEMA, output_mode=mode, key=key)
        crashes.until_it_ends(lambda: run(spark, tmp_path, lambda p: counts(p) | sink))
        versions = spark.tables["/t"]
        assert len(versions) == SECONDS - 1
        if mode == "complete":
            assert versions == [result(n) for n in range(1, SECONDS)]
        else:
            assert sorted(versions[-1]) == sorted(
                row for n in range(1, SECONDS) for row in result(n)
            )


def test_a_function_is_called_without_rows_if_that_is_asked_for(tmp_path: Path) -> None:
    called: dict[bool, list[int]] = {}

    for empty in (False, True):
        folder = tmp_path / str(empty)

        def keep(frame: Any, batch_id: int, folder: Path = folder) -> None:
            (folder / f"{batch_id}").write_text(str(len(frame.collect())))

        def build(p: beam.Pipeline, empty: bool = empty, keep: Any = keep) -> Any:
            events = TestStream().advance_watermark_to(1).add_elements(["a"])
            rows = p | events.advance_watermark_to_infinity() | beam.Map(lambda e: {"key": e})
            return rows | ForeachBatch(keep, SCHEMA, empty_batches=empty)

        folder.mkdir()
        run(Spark(), folder / "run", build)
        called[empty] = [
            int(file.read_text()) for file in sorted(folder.iterdir()) if file.is_file()
        ]
    assert called[False] == [1]
    assert sum(called[True]) == 1
    assert len(called[True]) > 2
