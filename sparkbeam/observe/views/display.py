"""Display of a run's progress, in a separate thread."""

import atexit
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Protocol

from sparkbeam.common.background import background_thread
from sparkbeam.observe.figures.progress import Progress
from sparkbeam.observe.views.log_lines import PlainScreen
from sparkbeam.observe.views.notebook import NotebookScreen, in_notebook
from sparkbeam.observe.views.terminal import TerminalScreen

_FRAME_SECONDS = 0.25
_CLOSE_SECONDS = 1.0


class Screen(Protocol):
    """An output for progress; all calls come from the display's thread.

    ``show`` is called a few times a second, then ``finish`` or ``clear`` once.
    """

    def show(self, progress: Progress, seconds: float) -> None:
        """Update the screen, ``seconds`` after the start of the run."""

    def finish(self, progress: Progress, seconds: float) -> None:
        """Show the final state of the run."""

    def clear(self) -> None:
        """Remove temporary output."""


class Display:
    """Thread that keeps a screen up to date until the run ends.

    If the screen fails, only the display ends.
    """

    def __init__(self, snapshot: Callable[[], Progress], screen: Screen) -> None:
        self._snapshot = snapshot
        self._screen = screen
        self._start = time.monotonic()
        self._hidden = False
        self._stopped = threading.Event()
        self._thread = background_thread(self._run, "sparkbeam-display")
        self._thread.start()
        # A program may end before its pipeline.
        atexit.register(self.hide)

    def hide(self) -> None:
        """Clear the screen and stop."""
        self._hidden = True
        self.close()

    def close(self) -> None:
        """Show the final state and stop; takes at most a second."""
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
    """Return the screen for a value of ``--spark_progress``; None for no display.

    It is the notebook's, or else standard error.
    """
    if option == "off":
        return None
    if in_notebook():
        return NotebookScreen()
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        return TerminalScreen(sys.stderr)
    return PlainScreen(sys.stderr) if option == "on" else None
