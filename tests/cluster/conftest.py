"""One cluster for all tests of this folder."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from standalone import Cluster

# The programs there are run as scripts, which find each other.
sys.path.insert(0, str(Path(__file__).parent / "drivers"))


@pytest.fixture(scope="package")
def cluster() -> Iterator[Cluster]:
    with Cluster(workers=2) as started:
        yield started
