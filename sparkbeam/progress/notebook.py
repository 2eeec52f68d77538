"""Progress in a notebook: a table below the cell, updated in place."""

import sys
from importlib import import_module
from typing import Any

from sparkbeam.progress.model import Progress

_WIDTH, _HEIGHT = 110, 60


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    if "ipykernel" not in sys.modules:
        return False
    from rich.console import Console

    return Console().is_jupyter


class NotebookScreen:
    """Shows a table through IPython's display."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, progress: Progress, seconds: float) -> None:
        """Updates the table."""
        from sparkbeam.progress.table import progress_table

        table = progress_table(progress, seconds, width=_WIDTH, height=_HEIGHT)
        if self._handle is None:
            display = import_module("IPython.display").display
            self._handle = display(table, display_id=True)
        else:
            self._handle.update(table)

    def finish(self, progress: Progress, seconds: float) -> None:
        """Leaves the table as it is at the end."""
        self.show(progress, seconds)

    def clear(self) -> None:
        """Does nothing: the notebook's user sees where it stopped."""
