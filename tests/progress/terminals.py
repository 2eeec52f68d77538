"""A terminal for tests, and what a person would see on it."""

import io
import os
import pty
import termios

import pyte

from sparkbeam.observe.figures.progress import Progress
from sparkbeam.observe.views.log_lines import PlainScreen

COLUMNS, ROWS = 80, 24


class Terminal:
    """A pseudo-terminal with a person before it."""

    def __init__(self) -> None:
        self._reader, writer = pty.openpty()
        self.stream = os.fdopen(writer, "w")
        self.resize(ROWS, COLUMNS)
        self._screen = pyte.Screen(COLUMNS, ROWS)
        self._emulator = pyte.ByteStream(self._screen)

    def resize(self, rows: int, columns: int) -> None:
        """Tells programs another size; the screen itself stays as it is."""
        termios.tcsetwinsize(self.stream.fileno(), (rows, columns))

    def print(self, text: str) -> None:
        """What another writer puts on the terminal."""
        self.stream.write(text)
        self.stream.flush()

    @property
    def lines(self) -> list[str]:
        """What can be seen, without the empty lines at the end."""
        os.set_blocking(self._reader, False)
        try:
            while data := os.read(self._reader, 65_536):
                self._emulator.feed(data)
        except BlockingIOError:
            pass
        lines = [line.rstrip() for line in self._screen.display]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    @property
    def cursor(self) -> tuple[int, int]:
        """Line and column."""
        return self._screen.cursor.y, self._screen.cursor.x

    def close(self) -> None:
        self.stream.close()
        os.close(self._reader)


def plain_lines(*moments: tuple[float, Progress]) -> list[str]:
    """What is written as lines of text when the progress is such at such times."""
    stream = io.StringIO()
    now = [0.0]
    screen = PlainScreen(stream, clock=lambda: now[0])
    for moment, progress in moments:
        now[0] = moment
        screen.show(progress, moment)
    return stream.getvalue().splitlines()
