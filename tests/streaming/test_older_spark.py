"""Streaming on versions of Spark that lack row state or available-now runs of Python sources."""

import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import golden
import pytest
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from in_process import Crash, Spark, rounds, streaming_pipeline

from pyspark_eventhubs.stream_readers import DataSourceStreamArrowWriter
from sparkbeam.errors import ConfigurationError
from sparkbeam.plan.spark_io import ReadSpec
from sparkbeam.streaming import execution, tick_source
from sparkbeam.streaming.available_now import AvailableNowRun, has_caught_up
from sparkbeam.streaming.checkpoint_files import LocalFiles
from sparkbeam.streaming.feedback import FeedbackFiles
from sparkbeam.streaming.tick_source import TickReader
from sparkbeam.upstream.spark import freezes_available_now, shown_offset
from sparkbeam.upstream.stream_readers import SupportsTriggerAvailableNow
from sparkbeam.wire.messages import SCHEMA, Message
from sparkbeam.worker.streaming import spark_operators
from sparkbeam_eventhubs.hooks import HubHooks


@pytest.fixture
def without_rows(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """A Spark with ``transformWithStateInPandas`` only."""
    monkeypatch.setattr(execution, "has_row_state", lambda session: False)
    with rounds(golden.ROUNDS):
        yield monkeypatch


def form_of(folder: Path) -> str:
    content = json.loads((folder / "sparkbeam" / "pipeline.json").read_text())
    return content.get("operator", "rows")


class TestStateInPandas:
    def test_a_pipeline_finds_the_same(
        self, without_rows: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        found = golden.run(Spark(), tmp_path)
        assert form_of(tmp_path) == "pandas"
        assert found == json.loads(golden.STORED.read_text())["whole"]

    def test_a_checkpoint_keeps_it_on_a_newer_spark(
        self, without_rows: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        def crash(point: tuple[int, str]) -> None:
            if point == (golden.HALFWAY, "committed"):
                raise Crash("Halfway.")

        spark = Spark(crash)
        before = golden.run(spark, tmp_path)
        spark.crash = lambda point: None
        without_rows.setattr(execution, "has_row_state", lambda session: True)
        whole = golden.run(spark, tmp_path)
        assert form_of(tmp_path) == "pandas"
        assert before
        assert whole == json.loads(golden.STORED.read_text())["whole"]

    def test_a_session_without_either_is_refused(
        self, without_rows: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        without_rows.setattr(execution, "has_pandas_state", lambda session: False)
        with pytest.raises(ConfigurationError, match="give a --spark_master"):
            golden.run(Spark(), tmp_path)

    def test_state_of_rows_is_not_continued(
        self, without_rows: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        with pytest.raises(ConfigurationError, match=r"Continue with pyspark 4\.1 or newer"):
            golden.resume(golden.STORED, tmp_path)
        assert not (tmp_path / "sparkbeam" / "generations").exists()

    def test_values_of_any_size_and_number_pass_frames(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(spark_operators, "_FRAME_BYTES", 1000)
        monkeypatch.setattr(spark_operators, "_FRAME_ROWS", 4)
        values = [b"", b"\0", bytes(range(256)), b"x" * 5000, *[b"y"] * 9]
        rows = [
            Message(1, 2, 3, -4, 5, (1 << 31) - 1 - number, value)
            for number, value in enumerate(values)
        ]
        frames = list(spark_operators._frames(iter(rows)))
        assert [len(frame) for frame in frames] == [4, 4, 4, 1]
        assert all(list(frame.columns) == SCHEMA.names for frame in frames)
        found = [Message(*row) for frame in frames for row in spark_operators._rows_of_frame(frame)]
        assert found == rows
        assert {type(part) for row in found for part in row} == {int, bytes}
        assert list(spark_operators._frames(iter(()))) == []


def test_readers_and_writers_have_sparks_contracts_where_there_are_any() -> None:
    is_sparks = SupportsTriggerAvailableNow.__module__.startswith("pyspark.")
    assert freezes_available_now() == is_sparks
    assert issubclass(TickReader, SupportsTriggerAvailableNow)
    writer: Any = DataSourceStreamArrowWriter
    assert list(inspect.signature(writer.commit).parameters)[1:] == ["messages", "batchId"]


class TestOffsetsInProgress:
    @pytest.mark.parametrize("text", ['{"n": null, "b": true}', "{'n': None, 'b': True}"])
    def test_both_forms_are_read(self, text: str) -> None:
        assert shown_offset(text) == {"n": None, "b": True}

    @pytest.mark.parametrize(
        "text", ["__import__('os').abort()", "{'n': ", "-", "[" * 99999], ids=len
    )
    def test_nothing_else_is(self, text: str) -> None:
        with pytest.raises(ValueError):  # noqa: PT011
            shown_offset(text)


def test_a_run_ends_before_what_is_due_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution, "freezes_available_now", lambda: False)
    monkeypatch.setattr(tick_source, "_STOP_SECONDS", 0)
    flags = "--trigger=available-now", "--shards=2"
    pipeline = streaming_pipeline(Spark(repeatable=False), tmp_path, *flags)
    _ = pipeline | PeriodicImpulse(fire_interval=3600)
    result = pipeline.run()
    assert result.wait_until_finish() == "DONE"
    assert FeedbackFiles(LocalFiles(str(tmp_path))).last_number() is None


class Planned:
    """As much of a plan as its sources are."""

    def __init__(self, *specs: ReadSpec) -> None:
        self.spark_reads = dict(enumerate(specs))


@pytest.mark.parametrize(
    ("ends", "caught_up"),
    [
        ([("{'t': {'0': 5}}", "{'t': {'0': 5}}")], True),
        ([("{'t': {'0': 5}}", "{'t': {'0': 7}}")], False),
        ([("{'t': {'0': 5}}", "{'t': {'0': 5}}"), ('{"logOffset":1}', None)], False),
    ],
)
def test_a_progress_tells_whether_sources_have_caught_up(ends: Any, caught_up: bool) -> None:
    sources = [{"endOffset": end, "latestOffset": latest} for end, latest in ends]
    assert has_caught_up(sources) is caught_up


HUB = ReadSpec("eventhubs", hooks=HubHooks())


@pytest.mark.parametrize(
    ("specs", "goes_on", "takes_all"),
    [
        ([], False, True),
        ([HUB], False, False),
        ([ReadSpec("parquet")], True, True),
        ([ReadSpec("rate")], True, True),
        ([ReadSpec("kafka"), ReadSpec("JSON")], True, True),
        ([ReadSpec("kafka", options=(("maxOffsetsPerTrigger", "7"),))], True, False),
        ([ReadSpec("json", options=(("maxfilespertrigger", "7"),))], True, False),
        ([ReadSpec("delta")], True, False),
        ([ReadSpec(table="t")], True, False),
        ([HUB, ReadSpec("csv")], True, False),
    ],
)
def test_sources_tell_how_a_run_can_end(
    specs: list[ReadSpec], goes_on: bool, takes_all: bool
) -> None:
    plan: Any = Planned(*specs)
    assert AvailableNowRun.from_plan(plan) == AvailableNowRun(goes_on, takes_all)
