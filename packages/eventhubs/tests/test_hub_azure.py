"""The contract of the client, the source and the sink with a hub, which the server for tests keeps.

Its checks are those of ``bench/hubazure.py``, which run against a real hub too.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from command import attempt, python
from hubs import connection

from pyspark_eventhubs.testing import EventHubsServer

pytestmark = pytest.mark.hub_partitions(4)

BENCH = Path(__file__).parents[3] / "bench"
sys.path.insert(0, str(BENCH))

import hubazure  # noqa: E402


@pytest.mark.parametrize("check", hubazure.CHECKS, ids=lambda check: check.__name__)
def test_the_server_for_tests_passes(
    server: EventHubsServer, check: Callable[[hubazure.Hub], None]
) -> None:
    check(hubazure.Hub(connection(server), "$Default"))


def test_a_check_that_fails_is_told_without_a_secret(
    server: EventHubsServer, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(hub: hubazure.Hub) -> None:
        hub.send([5])

    hub = hubazure.Hub(connection(server), "$Default")
    assert hubazure.run(hub, (hubazure.partitions_have_bounds, broken)) == ["broken"]
    told = capsys.readouterr().out
    assert "partitions have bounds: ok" in told
    assert "broken: FAILED: EventHubsError: a int cannot be the body" in told
    assert (hub.connection.endpoint().key or "?") not in told


def test_without_a_connection_string_it_says_what_it_wants() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "HUB"}
    run = attempt(sys.executable, BENCH / "hubazure.py", environment=environment)
    assert run.returncode == 1
    assert run.stderr.splitlines()[-1].startswith("Set HUB to the connection string")


@pytest.mark.long("a minute; test_hub_on_spark.py has streams and batches of pipelines")
@pytest.mark.timeout(180)
def test_frames_of_spark_go_and_come_back() -> None:
    python(BENCH / "hubazure.py", "--spark", "--stand-in")
