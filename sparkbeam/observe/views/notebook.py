"""Progress in a notebook: a table below the cell, updated in place."""

import sys
from importlib import import_module
from typing import Any

from sparkbeam.observe.figures.progress import Progress, headline, progress_html


def in_notebook() -> bool:
    """Return whether this process is a notebook kernel."""
    kernel: Any = sys.modules.get("ipykernel.zmqshell")
    shell: Any = sys.modules.get("IPython")
    if kernel is None or shell is None:
        return False
    return isinstance(shell.get_ipython(), kernel.ZMQInteractiveShell)


class NotebookScreen:
    """Table shown by IPython's display, and not on the cell's standard error."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, progress: Progress, seconds: float) -> None:
        """Update the table."""
        shown = {
            "text/html": progress_html(progress, seconds),
            "text/plain": headline(progress, seconds),
        }
        if self._handle is None:
            display = import_module("IPython.display").display
            self._handle = display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)

    def finish(self, progress: Progress, seconds: float) -> None:
        """Leave the table in its final state."""
        self.show(progress, seconds)

    def clear(self) -> None:
        """Do nothing, so that the user sees where the run stopped."""
