"""A terminal for tests, and what a person would see on it."""

import os
import pty
import termios

import pyte

COLUMNS, ROWS = 80, 24


class Terminal:
    """A pseudo-terminal with a person before it, wider than it tells programs."""

    def __init__(self) -> None:
        self._reader, writer = pty.openpty()
        self.stream = os.fdopen(writer, "w")
        self.resize(ROWS, COLUMNS)
        self._screen = pyte.Screen(2 * COLUMNS, ROWS)
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
        return "\n".join(line.rstrip() for line in self._screen.display).rstrip().splitlines()

    @property
    def cursor(self) -> tuple[int, int]:
        """Line and column."""
        return self._screen.cursor.y, self._screen.cursor.x

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        self.stream.close()
        os.close(self._reader)
