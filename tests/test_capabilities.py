"""Sessions that can do less than Spark's own: a pipeline runs in another way, and says so once."""

import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.metrics import Metrics
from in_process import Conf, Spark, StreamingRunner, Writer
from in_process_batch import BatchRunner
from own_sources import sources
from pyspark.errors import AnalysisException
from pyspark.sql.classic.dataframe import DataFrame

from sparkbeam import ConfigurationError, PipelineFailed, SparkBeamOptions, SparkRunner
from sparkbeam.io import WriteToSpark
from sparkbeam.spark import capabilities
from sparkbeam.spark import session as sessions
from sparkbeam.spark.capabilities import Capability
from sparkbeam.streaming import execution
from sparkbeam.upstream import spark as of_spark

KNOWN = ("spark.sql.shuffle.partitions", "spark.sql.session.timeZone", "spark.sql.ansi.enabled")


class Refusing(Conf):
    """Settings of a platform that tells and takes a few, also where a default is given."""

    def _check(self, key: str) -> None:
        if key not in KNOWN:
            raise AnalysisException(f"[CONFIG_NOT_AVAILABLE] Configuration {key} is not available.")

    def get(self, key: str, *default: Any) -> Any:
        self._check(key)
        return super().get(key, *default)

    def set(self, key: str, value: str) -> None:
        self._check(key)
        super().set(key, value)

    def unset(self, key: str) -> None:
        self._check(key)
        super().unset(key)

    @property
    def getAll(self) -> dict[str, str]:
        raise AnalysisException("[CONFIG_NOT_AVAILABLE] There is no list.")


def test_settings_and_caches_are_asked_for_in_one_place() -> None:
    """Elsewhere a platform that refuses one would fail a pipeline."""
    asking = re.compile(
        r"\.conf\.(get|set|unset|getAll|isModifiable)|\.(persist|localCheckpoint)\("
    )
    found = [
        f"{name}: {match.group()}"
        for name, path in sources().items()
        for match in asking.finditer(path.read_text())
        if path.name not in ("capabilities.py", "materialized_frames.py", "collect.py", "spark.py")
    ]
    assert found == []


def counted(p: beam.Pipeline) -> beam.PCollection:
    words = p | beam.Create(["a", "b", "a"]) | beam.Map(lambda word: (word, 1))
    return words | beam.CombinePerKey(sum) | beam.Map(print)


def names_told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The refused settings that the log names."""
    told = [text for text in caplog.messages if "refuses settings" in text]
    assert all(
        text.endswith(": a cluster with Spark's default settings is assumed.") for text in told
    )
    return [name for text in told for name in text.partition("(")[2].split(")")[0].split(", ")]


class TestSettings:
    @pytest.fixture
    def refusing(self) -> Spark:
        spark = Spark()
        spark.conf = Refusing({KNOWN[0]: "200"})
        return spark

    def test_a_stream_runs_without_the_settings_that_are_refused(
        self, refusing: Spark, caplog: pytest.LogCaptureFixture, tmp_path: Path
    ) -> None:
        options = SparkBeamOptions([f"--checkpoint_location={tmp_path}"])
        with beam.Pipeline(StreamingRunner(refusing), options) as p:
            counted(p)
        assert dict(refusing.conf) == {KNOWN[0]: "200"}
        named = names_told(caplog)
        assert len(named) == len(set(named))
        assert {"spark.master", "spark.sql.streaming.noDataMicroBatches.enabled"} <= set(named)
        assert KNOWN[0] not in named

    def test_a_batch_pipeline_runs_without_them_and_names_them_once_a_session(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        runner = BatchRunner()
        runner._session.conf = Refusing()
        for _ in range(2):
            with beam.Pipeline(runner) as p:
                counted(p)
        named = names_told(caplog)
        assert len(named) == len(set(named))
        assert "spark.master" in named

    def test_a_lost_session_is_no_refusal(self) -> None:
        class Lost(Conf):
            def get(self, *_: Any) -> Any:
                raise ConnectionRefusedError(111, "Connection refused")

        spark = Spark()
        spark.conf = Lost()
        with pytest.raises(ConnectionRefusedError):
            capabilities.setting(spark, "spark.master")

    def test_settings_for_now_leave_what_others_change(self) -> None:
        spark = Spark()
        spark.conf = Conf({"a": "1", "b": "2"})
        with capabilities.settings_for_now(spark, {"a": "10", "b": "20", "c": "30", "d": "40"}):
            assert dict(spark.conf) == {"a": "10", "b": "20", "c": "30", "d": "40"}
            spark.conf.set("b", "of others")
            spark.conf.set("d", "of others")
        assert dict(spark.conf) == {"a": "1", "b": "of others", "d": "of others"}

    def test_sparks_defaults_are_told_or_unknown(self, spark: Any) -> None:
        key = "spark.sql.autoBroadcastJoinThreshold"
        assert capabilities.setting(spark, key) is None
        assert capabilities.effective_setting(spark, key) == "10485760b"
        assert capabilities.effective_setting(spark, "spark.no.such.setting") is None
        assert capabilities.refused_settings(spark) == []


@pytest.fixture
def refusing(
    spark: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> Iterator[Any]:
    """Has a session refuse to persist, and what else a test names."""

    def refuse(*names: str) -> Any:
        def refused(*_: Any, **__: Any) -> Any:
            raise AnalysisException("[NOT_SUPPORTED_WITH_SERVERLESS] It is not supported.")

        for name in ("persist", *names):
            monkeypatch.setattr(DataFrame, name, refused)
        return spark

    yield refuse
    capabilities._all.pop(spark, None)


class Token(beam.DoFn):
    """Emits something else each time that it runs, and counts."""

    def process(self, element: int) -> Iterator[str]:
        Metrics.counter("capabilities", "runs").inc()
        yield uuid.uuid4().hex


def run(spark: Any, out: Path, *options: str) -> tuple[list[str], list[str], int]:
    """What two readers of random elements get, and how many there were."""
    for name in ("one", "two"):
        (out / name).mkdir(parents=True)
    p = beam.Pipeline(SparkRunner(spark), SparkBeamOptions([*options]))
    tokens = p | beam.Create(range(5)) | "Token" >> beam.ParDo(Token())
    for name in ("one", "two"):
        folder = str(out / name)
        shuffled = tokens | f"Shuffle {name}" >> beam.Reshuffle()
        _ = shuffled | name >> beam.Map(lambda text, to=folder: Path(to, text).touch())
    result: Any = p.run()
    result.wait_until_finish()
    (counter,) = result.metrics().query()["counters"]
    one, two = (sorted(file.name for file in (out / name).iterdir()) for name in ("one", "two"))
    return one, two, counter.committed


def lacks(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [text for text in caplog.messages if text.startswith("The Spark session has no ")]


class TestPersist:
    def test_where_nothing_is_persisted_rows_are_checkpointed(
        self, refusing: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        one, two, runs = run(refusing(), tmp_path)
        assert one == two
        assert (len(one), runs) == (5, 5)
        assert lacks(caplog) == [
            "The Spark session has no persist: rows that several steps read are kept in local "
            "checkpoints, or else in Parquet files under --temp_location, in streaming under "
            "--checkpoint_location."
        ]

    def test_where_nothing_is_checkpointed_files_keep_them_while_the_pipeline_runs(
        self,
        refusing: Any,
        tmp_path: Path,
        caplog: pytest.LogCaptureFixture,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        spark = refusing("localCheckpoint")
        place = tmp_path / "temporary"
        monkeypatch.chdir(tmp_path)
        one, two, runs = run(spark, tmp_path, "--temp_location=temporary")
        assert one == two
        assert (len(one), runs) == (5, 5)
        assert [text.partition(":")[0] for text in lacks(caplog)] == [
            "The Spark session has no persist",
            "The Spark session has no local checkpoints",
        ]
        assert [*place.iterdir()] == []

    def test_without_a_place_the_step_and_the_option_are_named(
        self, refusing: Any, tmp_path: Path
    ) -> None:
        spark = refusing("localCheckpoint")
        with pytest.raises(ConfigurationError, match=r"Step 'Token' would .*--temp_location=PATH"):
            run(spark, tmp_path)
        assert [*(tmp_path / "one").iterdir()] == []

    def test_steps_that_give_the_same_again_and_do_nothing_else_run_again(
        self, refusing: Any, tmp_path: Path
    ) -> None:
        spark = refusing("localCheckpoint")
        with beam.Pipeline(SparkRunner(spark)) as p:
            numbers = p | beam.Create(range(5))
            for name in ("one", "two"):
                shuffled = numbers | f"Shuffle {name}" >> beam.Reshuffle()
                path = str(tmp_path / name)
                _ = shuffled | name >> beam.Map(lambda n, to=path: Path(f"{to}-{n}").touch())
        assert len([*tmp_path.iterdir()]) == 10

    def test_the_layers_of_a_stream_run_once_for_all_of_its_sinks(
        self, refusing: Any, tmp_path: Path
    ) -> None:
        spark = refusing("localCheckpoint")
        checkpoint, kept = tmp_path / "checkpoint", [tmp_path / name for name in ("one", "two")]
        options = ["--streaming", "--trigger=available-now", f"--checkpoint_location={checkpoint}"]
        with beam.Pipeline(SparkRunner(spark), SparkBeamOptions(options)) as p:
            tokens = p | beam.Create(range(5)) | beam.ParDo(Token())
            rows = tokens | beam.Map(lambda token: beam.Row(token=token))
            for path in kept:
                _ = rows | path.name >> WriteToSpark("json", {"path": str(path)}, "token string")
        one, two = (
            sorted(row.token for row in spark.read.json(str(path)).collect()) for path in kept
        )
        assert one == two
        assert len(one) == 5
        assert [*checkpoint.rglob("kept/*")] == []

    def test_a_failure_of_what_is_persisted_is_no_refusal(
        self, spark: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        usual = DataFrame.persist

        def persist(frame: DataFrame, *arguments: Any) -> Any:
            if "tag" in frame.columns:
                raise AnalysisException("There is no such table.")
            return usual(frame, *arguments)

        monkeypatch.setattr(DataFrame, "persist", persist)
        p = beam.Pipeline(SparkRunner(spark))
        numbers = p | beam.Create(range(5))
        for name in ("one", "two"):
            _ = numbers | f"Shuffle {name}" >> beam.Reshuffle() | name >> beam.Map(print)
        result = p.run()
        with pytest.raises(PipelineFailed, match="There is no such table"):
            result.wait_until_finish()
        assert capabilities.has(spark, Capability.PERSIST)


class TestPartitions:
    """Of a server that is not known to be Spark's own."""

    @pytest.fixture
    def foreign(self, spark: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
        monkeypatch.setattr(capabilities, "is_remote", lambda _: True)
        capabilities._all.pop(spark, None)
        yield spark
        capabilities._all.pop(spark, None)

    def test_a_shuffle_that_partitions_by_key_is_taken(self, foreign: Any) -> None:
        capabilities.require_partitions(foreign)

    @pytest.mark.parametrize("way", ["spread at random", "in one task"])
    def test_a_server_that_does_not_is_refused(
        self, foreign: Any, monkeypatch: pytest.MonkeyPatch, way: str
    ) -> None:
        usual = DataFrame.repartition

        def repartition(frame: DataFrame, count: int, *_: Any) -> Any:
            return usual(frame, count if way == "spread at random" else 1)

        monkeypatch.setattr(DataFrame, "repartition", repartition)
        p = beam.Pipeline(SparkRunner(foreign))
        counted(p)
        result = p.run()
        with pytest.raises(ConfigurationError, match="has no partitioning by key"):
            result.wait_until_finish()

    def test_tasks_without_numbers_are_refused(
        self, foreign: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def unnumbered(batches: Any) -> Any:
            import os

            task = os.urandom(8)
            for batch in batches:
                count = batch.num_rows
                columns = [[task] * count, pa.array([-1] * count, pa.int32()), batch.column(0)]
                yield pa.record_batch(columns, names=["task", "number", "key"])

        monkeypatch.setattr(capabilities, "_tasks", unnumbered)
        with pytest.raises(ConfigurationError, match="tasks have no numbers"):
            capabilities.require_partitions(foreign)

    def test_a_persist_that_does_nothing_is_found(
        self, foreign: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert capabilities.has(foreign, Capability.PERSIST)
        capabilities._all.pop(foreign, None)
        monkeypatch.setattr(capabilities, "planned_splits", lambda _: None)
        monkeypatch.setattr(DataFrame, "persist", lambda frame: frame)
        assert not capabilities.has(foreign, Capability.PERSIST)


def test_state_is_asked_of_the_session_and_not_of_the_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("has_row_state", "has_pandas_state"):
        monkeypatch.setattr(of_spark, name, lambda session=None: session is None)
    assert not capabilities.has(Spark(), Capability.STATE)


class TestEndlessTriggers:
    @pytest.fixture
    def triggers(self, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
        """Those of the queries of a session that refuses endless ones."""
        triggers: list[dict[str, Any]] = []

        def trigger(writer: Writer, **when: Any) -> Writer:
            triggers.append(when)
            return writer

        def start(writer: Writer) -> Any:
            if triggers[-1] != {"availableNow": True}:
                raise AnalysisException("[INFINITE_STREAMING_TRIGGER_NOT_SUPPORTED] Not here.")
            return usual(writer)

        usual = Writer.start
        monkeypatch.setattr(Writer, "trigger", trigger)
        monkeypatch.setattr(Writer, "start", start)
        return triggers

    def test_a_stream_processes_what_is_there_and_ends(
        self, triggers: list[dict[str, Any]], caplog: pytest.LogCaptureFixture, tmp_path: Path
    ) -> None:
        spark = Spark()
        for number in range(2):
            options = SparkBeamOptions([f"--checkpoint_location={tmp_path / str(number)}"])
            with beam.Pipeline(StreamingRunner(spark), options) as p:
                counted(p)
        assert [*triggers[0], *(key for when in triggers[1:] for key in when)] == [
            "processingTime",
            "availableNow",
            "availableNow",
        ]
        assert lacks(caplog) == [
            "The Spark session has no endless triggers: a stream processes the available data "
            "and ends; start it again for more."
        ]

    @pytest.mark.parametrize("options", [[], ["--trigger=available-now"]], ids=str)
    def test_where_sparkbeam_has_to_end_streams_itself_none_runs(
        self,
        options: list[str],
        triggers: list[dict[str, Any]],
        monkeypatch: pytest.MonkeyPatch,
        tmp_path: Path,
    ) -> None:
        monkeypatch.setattr(execution, "freezes_available_now", lambda: False)
        options = [*options, f"--checkpoint_location={tmp_path}"]
        p = beam.Pipeline(StreamingRunner(Spark()), SparkBeamOptions(options))
        counted(p)
        with pytest.raises(ConfigurationError, match=r"no endless triggers.* Spark 4\.2 or newer"):
            p.run().wait_until_finish()


def test_files_that_a_session_does_not_take_are_an_error_with_another_way(
    spark: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise AnalysisException("[ARTIFACTS] Not supported.\nMore lines.")

    module = tmp_path / "helper.py"
    module.write_text("")
    monkeypatch.setattr(of_spark, "ship", refused)
    options = SparkBeamOptions([f"--spark_py_files={module}"])
    with pytest.raises(ConfigurationError, match=r"Not supported\.\)\. Install the modules"):
        sessions.ship_modules(spark, options)
