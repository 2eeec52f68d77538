"""One Spark session for all tests of a run."""

import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import quick_start

from sparkbeam import session as sessions
from sparkbeam.options import SparkBeamOptions
from sparkbeam.worker.steps import table

SPARK = "spark"
"""The group of the tests that share a Spark session, and the name of its fixture."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--whole",
        action="store_true",
        help="run all of Beam's tests on Spark, not a part of them",
    )
    parser.addoption(
        "--elementwise",
        action="store_true",
        help="run all steps as Beam's own operations, in tests that run them in this process",
    )


@pytest.fixture(scope="session", autouse=True)
def table_of_steps(request: pytest.FixtureRequest) -> Iterator[None]:
    """Empties the table of steps where that is asked for."""
    with pytest.MonkeyPatch.context() as patch:
        if request.config.getoption("elementwise"):
            patch.setattr(table, "IN_BLOCKS", ())
        yield


def pytest_sessionstart(session: pytest.Session) -> None:
    config = session.config
    cache = getattr(config, "cache", None)
    # The processes that pytest-xdist starts have the environment of the one that starts them.
    if cache is not None and not config.option.collectonly and not hasattr(config, "workerinput"):
        quick_start.prepare(Path(cache.mkdir("jvm")))


def pytest_itemcollected(item: pytest.Item) -> None:
    """Says which tests have to run in the same process, where pytest-xdist runs several.

    All that use the one Spark session do, and what is marked as another group, else the tests of a
    file.
    """
    if item.get_closest_marker("xdist_group") is None:
        group = SPARK if "spark" in getattr(item, "fixturenames", ()) else item.path.name
        item.add_marker(pytest.mark.xdist_group(group))


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A session on two local cores."""
    logging.getLogger("py4j").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory(prefix="sparkbeam-tests-") as folder:
        session = sessions.obtain(
            SparkBeamOptions(
                [
                    "--spark_master=local[2]",
                    f"--spark_conf=spark.sql.warehouse.dir={folder}",
                    "--spark_conf=spark.driver.memory=3g",
                ]
            )
        )
        yield session
        session.stop()
