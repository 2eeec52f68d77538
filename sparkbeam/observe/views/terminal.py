"""Progress on a terminal, redrawn in place.

Other writers share the terminal: the program, its log, and the workers of a local session, whose
output cannot be redirected. Therefore the cursor rests *above* the table, on an empty line where
other output may appear; the next frame draws the table below that output. No output of others is
lost, and no terminal mode is changed that would have to be restored.
"""

import os
from io import StringIO
from typing import TYPE_CHECKING, TextIO

from sparkbeam.observe.figures.progress import Progress

if TYPE_CHECKING:
    from rich.console import Console

_DELAY_SECONDS = 0.5
_DOWN = "\x1bD"
"""Control character that moves one line down in the same column, scrolling at the bottom."""

_SAVE, _RESTORE = "\x1b7", "\x1b8"
_ERASE_LINE, _ERASE_BELOW = "\x1b[K", "\x1b[J"


class TerminalScreen:
    """Table on a terminal, shown from half a second after the start."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._console: Console | None = None
        self._drawn = False

    def show(self, progress: Progress, seconds: float) -> None:
        """Draw a frame."""
        if seconds < _DELAY_SECONDS:
            return
        lines = self._lines(progress, seconds)
        room = _DOWN * len(lines) + f"\x1b[{len(lines)}A"
        table = "".join(f"\r\n{line}{_ERASE_LINE}" for line in lines)
        self._write(f"{room}{_ERASE_LINE}{_SAVE}{table}{_ERASE_BELOW}{_RESTORE}")
        self._drawn = True

    def finish(self, progress: Progress, seconds: float) -> None:
        """Leave the table in its final state, if it has been shown."""
        if self._drawn:
            lines = self._lines(progress, seconds)
            self._write(_ERASE_BELOW + "".join(f"{line}\r\n" for line in lines))

    def clear(self) -> None:
        """Remove the table."""
        if self._drawn:
            self._write(_ERASE_BELOW)

    def _lines(self, progress: Progress, seconds: float) -> list[str]:
        # Takes a tenth of a second to load, which short pipelines need not wait for.
        from rich.console import Console

        from sparkbeam.observe.views.rich_table import progress_table

        if self._console is None:
            self._console = Console(file=StringIO(), force_terminal=True, legacy_windows=False)
        try:
            columns, rows = os.get_terminal_size(self._stream.fileno())
        except OSError:
            columns, rows = 80, 24
        # A line that fills the last column, or a table that fills the last row, may scroll.
        width, height = max(columns - 1, 20), max(rows - 2, 2)
        self._console.width = width
        table = progress_table(progress, seconds, width=width, height=height)
        with self._console.capture() as captured:
            self._console.print(table, overflow="crop", no_wrap=True)
        return [line.rstrip() for line in captured.get().splitlines()]

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
