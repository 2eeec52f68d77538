"""Pipelines on platforms with restrictions, which a proxy before a Spark Connect server simulates.

The tests of ``platform_suite.py``, and with ``--whole`` other tests too, run in processes of their
own, which have the sessions.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from command import attempt
from other_process import TESTS, Reports, failures, part, reports, rest, tell
from platform_simulator import Simulator
from policies import NO_NETWORK, ONE_GIB, READ_ONLY, Policy, Serverless, Standard
from whole import is_whole

SUITE = Path(__file__).with_name("platform_suite.py")
CHOSEN = part(SUITE, 12)
SERVERLESS, STANDARD, BARE = "serverless", "standard", "bare"
POLICIES = {
    SERVERLESS: Serverless(worker=ONE_GIB),
    STANDARD: Standard(),
    BARE: Policy(worker=f"{ONE_GIB}\n{READ_ONLY}"),
}
WHOLE = pytest.mark.skipif(not is_whole(), reason="takes minutes, so it runs with --whole")
SOCKETS = {"spark.python.unix.domain.socket.enabled": "true"}
"""A worker without a network reaches the JVM by these."""


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Reports:
    options = (f"--rootdir={SUITE.parent}", *rest(SUITE, CHOSEN))
    return reports([SUITE], tmp_path_factory.mktemp("platforms"), *options)


@pytest.mark.timeout(900)  # The first one runs them all.
@pytest.mark.parametrize("name", CHOSEN)
def test_on_a_simulated_platform(name: str, outcomes: Reports) -> None:
    tell(outcomes, name)


@pytest.fixture(scope="module")
def simulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulator]:
    with Simulator(tmp_path_factory.mktemp("whole"), POLICIES) as simulator:
        yield simulator


@WHOLE
@pytest.mark.parametrize("platform", POLICIES)
@pytest.mark.parametrize("suite", ["test_validates_runner.py", "test_streaming_on_spark.py"])
def test_beams_suites_pass(suite: str, platform: str, simulator: Simulator, tmp_path: Path) -> None:
    url = f"--spark_connect={simulator.proxy.url(platform)}"
    assert failures(reports([TESTS / "suites" / suite], tmp_path, url)) == []


@WHOLE
@pytest.mark.parametrize("mode", ["batch", "streaming"])
@pytest.mark.parametrize("platform", POLICIES)
def test_nexmarks_results_are_right(
    platform: str, mode: str, simulator: Simulator, tmp_path: Path
) -> None:
    options = ["--check", f"--mode={mode}", "--events=2000", f"--history={tmp_path / 'runs.db'}"]
    options += [f"--temp_location={simulator.volume}"]
    options += [f"--checkpoint_location={simulator.volume / 'nexmark'}"] * (mode == "streaming")
    url = f"--spark_connect={simulator.proxy.url(platform)}"
    done = attempt(sys.executable, "-m", "sparkbeam", "nexmark", *options, url)
    assert done.returncode == 0, done.stdout + done.stderr


@WHOLE
def test_batch_needs_no_network_in_workers(tmp_path: Path) -> None:
    policies = {"offline": Policy(worker=f"{ONE_GIB}\n{NO_NETWORK}")}
    (tmp_path / "server").mkdir()
    with Simulator(tmp_path / "server", policies, SOCKETS) as simulator:
        url = f"--spark_connect={simulator.proxy.url('offline')}"
        suite = TESTS / "suites" / "test_validates_runner.py"
        assert failures(reports([suite], tmp_path, url)) == []
