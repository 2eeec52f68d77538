"""Tests over sessions of simulated platforms; ``test_platforms.py`` runs them in a process.

First the simulator by itself, with PySpark alone, then pipelines.
"""

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import program_of_sources
import pytest
from apache_beam.io.jdbc import ReadFromJdbc, WriteToJdbc
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms import trigger
from apache_beam.transforms.window import GlobalWindows
from platform_simulator import Simulator
from policies import (
    CLIENT_SETTINGS,
    ONE_GIB,
    OTHER_PYTHON,
    READ_ONLY,
    SERVERLESS_SETTINGS,
    Foreign,
    Policy,
    Serverless,
    Standard,
)
from pyspark.errors import AnalysisException, UnsupportedOperationException
from pyspark.sql import SparkSession
from whole import is_whole

from sparkbeam import ConfigurationError, PipelineFailed, SparkBeamOptions, SparkRunner
from sparkbeam.io import ForeachBatch, FromDataFrame
from sparkbeam.spark.session import obtain
from sparkbeam.upstream.spark import local_checkpoint

SERVERLESS, STANDARD, FOREIGN, OPEN = "serverless", "standard", "foreign", "open"
CHECKPOINTED, NARROW, NEWER = "checkpointed", "narrow", "newer"
POLICIES = {
    # Harder than the platform: its workers have a folder for temporary files.
    SERVERLESS: Serverless(worker=f"{ONE_GIB}\n{READ_ONLY}"),
    CHECKPOINTED: Serverless(worker=ONE_GIB, local_checkpoints=True),
    NEWER: Policy(worker=OTHER_PYTHON),
    NARROW: Serverless(artifact_bytes=1000),
    STANDARD: Standard(),
    FOREIGN: Foreign(),
}


@pytest.fixture(scope="module")
def simulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulator]:
    with Simulator(tmp_path_factory.mktemp("platforms"), POLICIES) as simulator:
        yield simulator


@pytest.fixture(scope="module")
def sessions(simulator: Simulator) -> Iterator[Callable[[str], Any]]:
    """Sessions by the names of their policies."""
    made: dict[str, Any] = {}

    def session(name: str) -> Any:
        if name not in made:
            made[name] = simulator.session(name)
        return made[name]

    yield session
    for one in made.values():
        one.stop()


def refusal(error: type[Exception], act: Callable[[], Any]) -> str | None:
    """The condition of the error that a call ends with."""
    with pytest.raises(error) as caught:
        act()
    assert isinstance(caught.value, AnalysisException | UnsupportedOperationException)
    return caught.value.getCondition()


# The simulator.


def test_platforms_refuse_what_their_documents_say(
    sessions: Callable[[str], Any], tmp_path: Path
) -> None:
    serverless, standard, narrow = map(sessions, (SERVERLESS, STANDARD, NARROW))
    conf, of_standard, frame = serverless.conf, standard.conf, serverless.range(3)
    frame.createOrReplaceTempView("numbers")
    stream = serverless.readStream.schema("number long").csv(str(tmp_path)).writeStream
    jar, file = tmp_path / "a.jar", tmp_path / "a.txt"
    jar.write_bytes(b"PK")
    refused: dict[str, list[Callable[[], Any]]] = {
        "CONFIG_NOT_AVAILABLE": [
            lambda: conf.get("spark.sql.adaptive.enabled"),
            lambda: conf.get("spark.master", "local"),
            lambda: conf.get("spark.master", None),
            lambda: conf.set("spark.sql.adaptive.enabled", "true"),
            lambda: conf.unset("spark.sql.adaptive.enabled"),
            lambda: serverless.sql("SET spark.sql.adaptive.enabled = true"),
            lambda: of_standard.set("spark.jars", "a"),
            lambda: of_standard.set("spark.executorEnv.PATH", "a"),
        ],
        "NOT_SUPPORTED_WITH_SERVERLESS": [
            *(frame.persist, frame.cache, frame.unpersist, frame.checkpoint),
            frame.localCheckpoint,
            lambda: serverless.sql("CACHE TABLE numbers"),
            lambda: serverless.catalog.cacheTable("numbers"),
            lambda: frame.createGlobalTempView("everywhere"),
            lambda: narrow.addArtifacts(str(jar)),
        ],
        "INFINITE_STREAMING_TRIGGER_NOT_SUPPORTED": [
            stream.format("noop").start,
            stream.format("noop").trigger(processingTime="1 second").start,
        ],
    }
    for condition, acts in refused.items():
        for act in acts:
            assert refusal(AnalysisException, act) == condition
    for size in (1001, 100_000):  # The second one is sent in chunks.
        file.write_text("." * size)
        act = lambda: narrow.addArtifacts(str(file), file=True)  # noqa: E731
        assert refusal(UnsupportedOperationException, act) == "ARTIFACT_TOO_LARGE"


def test_platforms_do_all_else(sessions: Callable[[str], Any], tmp_path: Path) -> None:
    for name in (OPEN, SERVERLESS, FOREIGN):
        assert sessions(name).range(10_000).selectExpr("sum(id)").first()[0] == 49_995_000
        act = lambda name=name: sessions(name).sql("select no_column")  # noqa: E731
        assert str(refusal(AnalysisException, act)).startswith("UNRESOLVED_COLUMN")
    conf = sessions(SERVERLESS).conf
    conf.set("spark.sql.shuffle.partitions", "3")
    assert conf.get("spark.sql.shuffle.partitions") == "3"
    assert set(conf.getAll) <= SERVERLESS_SETTINGS | CLIENT_SETTINGS
    sessions(STANDARD).conf.set("spark.sql.adaptive.enabled", "true")
    (tmp_path / "a.txt").write_text("." * 900)
    sessions(NARROW).addArtifacts(str(tmp_path / "a.txt"), file=True)


def test_settings_of_a_new_session_that_serverless_refuses_are_warnings(
    simulator: Simulator,
) -> None:
    builder: Any = SparkSession.builder.remote(simulator.proxy.url(SERVERLESS))
    builder = builder.config("spark.sql.adaptive.enabled", "true")
    builder = builder.config("spark.sql.shuffle.partitions", "7")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        session = builder.create()
    assert "CONFIG_NOT_AVAILABLE" in "".join(str(one.message) for one in caught)
    assert session.conf.get("spark.sql.shuffle.partitions") == "7"
    session.stop()


def test_a_local_checkpoint_belongs_to_its_session_though_another_one_is_active(
    sessions: Callable[[str], Any],
) -> None:
    sessions(OPEN)
    other = sessions(CHECKPOINTED)
    assert SparkSession.active() is not other
    assert local_checkpoint(other.range(3)).count() == 3


@pytest.mark.parametrize(("name", "is_kept"), [(OPEN, True), (FOREIGN, False)])
def test_a_foreign_engine_does_not_keep_keys_together(
    name: str, is_kept: bool, sessions: Callable[[str], Any]
) -> None:
    rows = sessions(name).range(100).selectExpr("id % 2 as key").repartition(2, "key")
    tasks = rows.selectExpr("key", "spark_partition_id() as task").distinct().collect()
    assert (len({row.key for row in tasks}) == len(tasks)) == is_kept


def test_workers_have_the_memory_of_their_platform(sessions: Callable[[str], Any]) -> None:
    def limit(batches: Iterator[Any]) -> Iterator[Any]:
        import resource

        import pyarrow as pa

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"bytes": [resource.getrlimit(resource.RLIMIT_AS)[0]]})

    rows = sessions(SERVERLESS).range(1).mapInArrow(limit, "bytes long").collect()
    assert {row.bytes for row in rows} == {1 << 30}


# Pipelines.

RUNS_ON = [SERVERLESS, *([OPEN, STANDARD, CHECKPOINTED] if is_whole() else [])]


def pipeline(session: Any, *arguments: str) -> beam.Pipeline:
    return beam.Pipeline(SparkRunner(session), SparkBeamOptions(list(arguments)))


@pytest.mark.parametrize("name", RUNS_ON)
def test_a_batch_pipeline_runs(
    name: str, simulator: Simulator, sessions: Callable[[str], Any]
) -> None:
    with pipeline(sessions(name), f"--temp_location={simulator.volume}") as p:
        numbers = p | beam.Create(range(20)) | beam.Map(lambda n: (n % 3, n))
        largest = numbers | beam.Values() | beam.combiners.Top.Largest(1)
        summed = numbers | beam.CombinePerKey(sum)
        grouped = numbers | beam.GroupByKey() | beam.MapTuple(lambda k, ns: (k, len([*ns])))
        scaled = summed | beam.Map(
            lambda pair, most: (pair[0], pair[1] * most[0]), beam.pvalue.AsSingleton(largest)
        )
        assert_that(scaled, equal_to([(0, 63 * 19), (1, 70 * 19), (2, 57 * 19)]), "Sums")
        assert_that(grouped, equal_to([(0, 7), (1, 7), (2, 6)]), "Sizes")


def test_a_pipeline_runs_as_the_user_of_its_url_though_another_session_is_active(
    simulator: Simulator, sessions: Callable[[str], Any]
) -> None:
    sessions(OPEN)
    options = SparkBeamOptions([f"--spark_connect={simulator.proxy.url(STANDARD)}"])
    session = obtain(options)
    assert session.client._user_id == STANDARD
    assert obtain(options) is session
    session.stop()


@pytest.mark.parametrize("name", [SERVERLESS, *([STANDARD, CHECKPOINTED] if is_whole() else [])])
def test_a_stream_drains_what_is_there(
    name: str, simulator: Simulator, sessions: Callable[[str], Any], tmp_path: Path
) -> None:
    session = sessions(name)
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    out.mkdir()
    (source / "numbers.csv").write_text("3\n4\n4\n")

    def keep(frame: Any, batch_id: int) -> None:
        try:  # Its session is under the policy too.
            frame.persist()
            refused = False
        except AnalysisException:
            refused = True
        rows = sorted(tuple(row) for row in frame.collect())
        (out / f"{batch_id}").write_text(repr((refused, rows)))

    arguments = ["--streaming", f"--checkpoint_location={simulator.volume / name}"]
    if name == STANDARD:  # Serverless has no other trigger, and takes it without being told.
        arguments.append("--trigger=available-now")
    with pipeline(session, *arguments) as p:
        frame = session.readStream.schema("number long").csv(str(source))
        numbers = p | FromDataFrame(frame) | beam.Map(lambda row: (row.number, 1))
        _ = (
            numbers
            | beam.WindowInto(GlobalWindows(), trigger=EACH, accumulation_mode=ADDS)
            | beam.CombinePerKey(sum)
            | beam.MapTuple(lambda number, count: beam.Row(number=number, count=count))
            | ForeachBatch(keep, "number long, count long")
        )
    expected = repr((name != STANDARD, [(3, 1), (4, 2)]))
    assert [file.read_text() for file in out.iterdir()] == [expected]


@pytest.mark.parametrize("name", RUNS_ON)
def test_queries_and_yaml_run(
    name: str, simulator: Simulator, sessions: Callable[[str], Any]
) -> None:
    program_of_sources.run_queries(pipeline(sessions(name), f"--temp_location={simulator.volume}"))


@pytest.mark.parametrize("name", RUNS_ON)
def test_files_and_rows_of_a_statement_are_written_and_read(
    name: str, simulator: Simulator, sessions: Callable[[str], Any]
) -> None:
    folder = simulator.volume / f"files-{name}"
    folder.mkdir()
    arguments = f"--temp_location={simulator.volume}"
    program_of_sources.write_files_and_rows(pipeline(sessions(name), arguments), folder)
    program_of_sources.read_files(pipeline(sessions(name), arguments), folder)


@pytest.mark.parametrize("name", RUNS_ON)
def test_a_database_is_written_and_read(
    name: str, simulator: Simulator, sessions: Callable[[str], Any]
) -> None:
    """The server has the driver of Derby: a session brings none."""
    database = {
        "table_name": "sales",
        "driver_class_name": "org.apache.derby.iapi.jdbc.AutoloadedDriver",
        "jdbc_url": f"jdbc:derby:{simulator.volume / f'derby-{name}'};create=true",
        "username": "",
        "password": "",
    }
    arguments = f"--temp_location={simulator.volume}"
    create = {"url": database["jdbc_url"], "driver": database["driver_class_name"]}
    frame = sessions(name).createDataFrame([("z", 1)], "item string, price int")
    frame.write.format("jdbc").options(**create, dbtable="sales").save()
    with pipeline(sessions(name), arguments) as p:
        sales = program_of_sources.SALES
        rows = p | beam.Create([beam.Row(item=item, price=price) for item, price, _ in sales])
        _ = rows | WriteToJdbc(**database)
    with pipeline(sessions(name), arguments) as p:
        found = p | ReadFromJdbc(**database) | beam.Map(tuple)
        assert_that(found, equal_to([("z", 1), ("a", 3), ("b", 4), ("a", 9)]))


EACH = trigger.Repeatedly(trigger.AfterCount(1))
ADDS = trigger.AccumulationMode.ACCUMULATING


def test_a_grouping_is_refused_where_keys_are_not_kept_together(
    sessions: Callable[[str], Any],
) -> None:
    p = pipeline(sessions(FOREIGN))
    _ = p | beam.Create([(1, 2), (1, 3)]) | beam.GroupByKey() | beam.Map(len)
    with pytest.raises(ConfigurationError, match="partitioning by key"):
        p.run().wait_until_finish()


def test_workers_with_another_python_are_an_error_that_names_both(
    sessions: Callable[[str], Any],
) -> None:
    p = pipeline(sessions(NEWER))
    _ = p | beam.Create([1]) | beam.Map(str)
    with pytest.raises(PipelineFailed, match=r"The workers run Python 3\.\d+"):
        p.run().wait_until_finish()
