"""One Spark session for all tests of a run."""

import gc
import logging
import os
import signal
import tempfile
from collections import defaultdict
from collections.abc import Generator, Iterator
from typing import Any

import pytest
import quick_beam
import quick_start
from apache_beam.internal.cloudpickle import cloudpickle
from golden_files import Golden
from hypothesis import HealthCheck, settings
from whole import WHOLE

from sparkbeam.errors import ConfigurationError
from sparkbeam.observe.collection.stream_tracker import StreamTracker
from sparkbeam.observe.figures.micro_batch import MicroBatch
from sparkbeam.observe.figures.progress import StreamingProgress
from sparkbeam.operators import registry
from sparkbeam.options.spark_options import SparkBeamOptions
from sparkbeam.spark import session as sessions
from sparkbeam.upstream import spark as of_spark

# How long a machine takes decides no test.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("part", settings.get_profile("untimed"), max_examples=25)
settings.load_profile("part")
quick_beam.prepare()
# All of these modules stay, so what is garbage is looked for among few objects, and seldom.
gc.set_threshold(20_000, 20, 20)

SPARK = "spark"
"""The group of the tests that share a Spark session, and the name of its fixture."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--whole",
        action="store_true",
        help="run all tests, also those marked with long or part(number), without a time limit",
    )
    parser.addoption(
        "--elementwise",
        action="store_true",
        help="plan pipelines without operators over blocks, all steps as Beam's own operations",
    )
    parser.addoption(
        "--spark_connect",
        metavar="URL",
        help="run the tests that share a session over this Spark Connect server",
    )
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write the golden files of the tests that run, instead of comparing with them",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("whole"):
        os.environ[WHOLE] = "1"
        settings.load_profile("untimed")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # As in the background; programs that tests start and interrupt would inherit it.
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def list_of_operators(request: pytest.FixtureRequest) -> Iterator[None]:
    """Leaves those of single elements in the list of operators where that is asked for."""
    with pytest.MonkeyPatch.context() as patch:
        if request.config.getoption("elementwise"):
            patch.setattr(registry, "OPERATORS", registry.ELEMENTWISE)
        yield


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leaves out what Beam's own operations do in another way, where they run."""
    mark = item.get_closest_marker("blocks")
    if mark is not None and item.config.getoption("elementwise"):
        pytest.skip(mark.kwargs["reason"])


STATELESS: dict[tuple[int, ...], tuple[str, ...]] = {
    (3, 5): ("streaming pipeline needs",),
    (4, 0): ("which the installed pyspark does not have over Spark Connect",),
}
"""Errors about streaming pipelines that a version of PySpark does not run."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Leaves out streaming pipelines on versions of PySpark that run none."""
    report = yield
    error = call.excinfo.value if call.excinfo is not None else None
    if isinstance(error, ConfigurationError) and any(
        text in str(error) for text in STATELESS.get(of_spark.version(), ())
    ):
        report.outcome = "skipped"
        report.longrepr = str(item.path), 0, str(error)
    return report


@pytest.fixture(scope="module")
def by_value(request: pytest.FixtureRequest) -> Iterator[None]:
    """Has functions of the module pickled like those of a program, which workers cannot import."""
    cloudpickle.register_pickle_by_value(request.module)
    yield
    cloudpickle.unregister_pickle_by_value(request.module)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compares a text with a file in the folder ``golden`` beside the test."""
    return Golden(request.path.parent / "golden", request.config.getoption("--update-golden"))


@pytest.fixture
def snapshots(monkeypatch: pytest.MonkeyPatch) -> list[StreamingProgress]:
    """The progress after each micro-batch; an event of a TestStream is one."""
    seen: list[StreamingProgress] = []
    note = StreamTracker.record_batch

    def look(tracker: StreamTracker, batch: MicroBatch) -> None:
        note(tracker, batch)
        seen.append(tracker.snapshot())

    monkeypatch.setattr(StreamTracker, "record_batch", look)
    monkeypatch.setattr("sparkbeam.streaming.tick_source._MOST_ROUNDS", 1)
    return seen


def pytest_collection_finish(session: pytest.Session) -> None:
    """Prepares JVMs, and starts one for that only where a test uses Spark."""
    config = session.config
    if config.option.collectonly or not session.items:
        return
    # One process may make the archive: ./dev has, before pytest-xdist starts several.
    alone = not hasattr(config, "workerinput")
    make = alone and any(map(_uses_spark, session.items))
    quick_start.prepare(make=make)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Has no garbage looked for among modules and tests, while they come and as they stay."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Says which tests have to run in the same process, where pytest-xdist runs several.

    All that use the one Spark session do, and what is marked as another group, else the tests of a
    file.
    """
    if item.get_closest_marker("xdist_group") is None:
        group = SPARK if _uses_spark(item) else item.path.name
        item.add_marker(pytest.mark.xdist_group(group))
    if item.config.getoption("whole"):  # Long tests have their time.
        item.add_marker(pytest.mark.timeout(0))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves cases out, and begins with the one group that takes long.

    So both processes end at the same time. Tests of many processes come next, by the names of
    their folders, and short ones last.
    """
    if not config.getoption("whole"):
        left_out = set(_left_out(items))
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]
    items.sort(key=lambda item: _group(item) != SPARK)


def _left_out(items: list[pytest.Item]) -> Iterator[pytest.Item]:
    """Cases of a test, or tests of a module, but for one in the number of its mark ``part``.

    And what is ``long``.
    """
    yield from (item for item in items if item.get_closest_marker("long") is not None)
    cases: dict[tuple[str, int], list[pytest.Item]] = defaultdict(list)
    for item in items:
        for node, mark in item.iter_markers_with_node("part"):
            cases[node.nodeid.partition("[")[0], mark.args[0]].append(item)
    for (_, part), found in cases.items():
        yield from (item for at, item in enumerate(found) if at % part)


def _uses_spark(item: pytest.Item) -> bool:
    return SPARK in getattr(item, "fixturenames", ())


def _group(item: pytest.Item) -> str:
    mark = item.get_closest_marker("xdist_group")
    return str(mark.args[0]) if mark is not None else ""


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A session on two local cores, or of the server that the command line names."""
    url = request.config.getoption("spark_connect")
    if url is not None:
        yield sessions.obtain(SparkBeamOptions([f"--spark_connect={url}"]))
        return
    logging.getLogger("py4j").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory(prefix="sparkbeam-tests-") as folder:
        session = sessions.obtain(
            SparkBeamOptions(
                [
                    "--spark_master=local[2]",
                    f"--spark_conf=spark.sql.warehouse.dir={folder}",
                    "--spark_conf=spark.driver.memory=3g",
                    "--spark_conf=spark.ui.enabled=true",
                    "--spark_conf=spark.ui.port=0",
                ]
            )
        )
        yield session
        session.stop()
