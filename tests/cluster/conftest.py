"""One cluster for all tests of this folder."""

from collections.abc import Iterator

import pytest
from standalone import Cluster


@pytest.fixture(scope="package")
def cluster() -> Iterator[Cluster]:
    with Cluster(workers=2) as started:
        yield started
