"""A terminal for each test that wants one."""

from collections.abc import Iterator

import pytest
from terminals import Terminal

from sparkbeam.observe.views.terminal import TerminalScreen


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    """An empty terminal."""
    terminal = Terminal()
    yield terminal
    terminal.close()


@pytest.fixture
def screen(terminal: Terminal) -> TerminalScreen:
    """Console that draws on the screen."""
    return TerminalScreen(terminal.stream)
