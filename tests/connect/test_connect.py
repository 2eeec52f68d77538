"""The tests of ``suite.py``, one by one, over a session of ``remote("local[2]")``.

A process has classic sessions or Spark Connect sessions, so they run in another one.
"""

from pathlib import Path

import pytest
from chosen_tests import chosen
from other_process import TESTS, Reports, part, reports, rest, tell

SUITE = Path(__file__).with_name("suite.py")
CHOSEN = part(SUITE, 5)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Reports:
    options = [f"--rootdir={SUITE.parent}", *rest(SUITE, CHOSEN)]
    folder = tmp_path_factory.mktemp("connect")
    return reports([SUITE], folder, *options, path=[TESTS / "streaming"])


@pytest.mark.timeout(900)  # The first one runs them all.
@pytest.mark.parametrize("name", [*chosen(), *CHOSEN])
def test_over_connect(name: str, outcomes: Reports) -> None:
    tell(outcomes, name)
