"""Whole texts of tests, compared with files in the folder ``golden`` beside each test."""

import re
from collections.abc import Iterable, Mapping
from difflib import unified_diff
from pathlib import Path

import pytest

_ALWAYS = {
    # The name of a lambda has its place, which moves with the lines above it.
    r"<lambda at [^>]*>": "<lambda>",
    r"\b0x[0-9a-f]{12}\b": "0x123456789abc",
}
"""Replacements in all texts."""


class Golden:
    """Compare texts with files, or write the files with ``--update-golden``.

    Args:
        folder: the folder of the files.
        update: True to write them.
    """

    def __init__(self, folder: Path, update: bool) -> None:
        self._folder = folder
        self._update = update

    def __call__(self, name: str, text: str, varying: Mapping[str, str] | None = None) -> None:
        """Fail with the differences if a text is not that of a file.

        Args:
            name: the name of the file.
            text: the text.
            varying: replacements for what varies between runs, by regular expressions.
        """
        for pattern, replacement in (_ALWAYS | dict(varying or {})).items():
            text = re.sub(pattern, replacement, text)
        text = "".join(f"{line.rstrip()}\n" for line in text.splitlines())
        path = self._folder / name
        if self._update:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        stored = path.read_text(encoding="utf-8") if path.exists() else ""
        if text != stored:
            lines = unified_diff(stored.splitlines(), text.splitlines(), name, "now", lineterm="")
            pytest.fail("\n".join([*lines, "--update-golden writes the file."]), pytrace=False)


def sections(texts: Mapping[str, Iterable[str]]) -> str:
    """Return the lines of several cases as one text, each case below its name."""
    return "\n\n".join("\n".join([f"## {name}", *lines]) for name, lines in texts.items())
