"""A terminal for each test that wants one."""

from collections.abc import Iterator

import pytest
from terminals import Terminal


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    """An empty terminal."""
    with Terminal() as terminal:
        yield terminal
