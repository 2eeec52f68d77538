"""Lines that steps write to a file, in whichever process they run."""

from pathlib import Path
from typing import Any


class Lines:
    """A file of lines that a step writes, one for each element."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def note(self, element: Any) -> None:
        """Write an element as the function of the last step."""
        with self._path.open("a") as file:
            file.write(f"{element}\n")

    def read(self) -> list[str]:
        """Return the lines in their order."""
        return self._path.read_text().splitlines() if self._path.exists() else []
