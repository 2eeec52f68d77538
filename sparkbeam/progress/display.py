"""Shows the progress of a run, in a thread of its own."""

import atexit
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Protocol

from sparkbeam.progress.log_lines import PlainScreen
from sparkbeam.progress.notebook import NotebookScreen, in_notebook
from sparkbeam.progress.snapshot import Progress
from sparkbeam.progress.terminal import TerminalScreen

_FRAME_SECONDS = 0.25
_CLOSE_SECONDS = 1.0


class Screen(Protocol):
    """Where progress is shown; all calls come from the display's thread.

    ``show`` is called a few times a second, then ``finish`` or ``clear`` once.
    """

    def show(self, progress: Progress, seconds: float) -> None:
        """Brings the screen up to date, ``seconds`` after the start of the run."""

    def finish(self, progress: Progress, seconds: float) -> None:
        """Shows how the run has ended."""

    def clear(self) -> None:
        """Takes away what is not meant to stay."""


class Display:
    """Keeps a screen up to date until the run ends.

    A screen that fails ends the display, and nothing else.

    Args:
        snapshot: gives the progress.
        screen: where to show it.
    """

    def __init__(self, snapshot: Callable[[], Progress], screen: Screen) -> None:
        self._snapshot = snapshot
        self._screen = screen
        self._start = time.monotonic()
        self._hidden = False
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sparkbeam-display", daemon=True)
        self._thread.start()
        # A program may end before its pipeline.
        atexit.register(self.hide)

    def hide(self) -> None:
        """Clears the screen and ends."""
        self._hidden = True
        self.close()

    def close(self) -> None:
        """Shows the end and ends; takes a second at most."""
        atexit.unregister(self.hide)
        self._stopped.set()
        self._thread.join(_CLOSE_SECONDS)

    def _run(self) -> None:
        try:
            while not self._stopped.wait(_FRAME_SECONDS):
                self._screen.show(self._snapshot(), time.monotonic() - self._start)
            if self._hidden:
                self._screen.clear()
            else:
                self._screen.finish(self._snapshot(), time.monotonic() - self._start)
        except Exception:  # A closed stream, a strange terminal.
            return


def screen_for(option: str) -> Screen | None:
    """The screen that ``--spark_progress`` asks for; None for no display.

    It is that of the notebook, or else on standard error.
    """
    if option == "off":
        return None
    if in_notebook():
        return NotebookScreen()
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        return TerminalScreen(sys.stderr)
    return PlainScreen(sys.stderr) if option == "on" else None
