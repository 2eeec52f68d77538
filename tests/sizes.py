"""Limits of the size of the repository: ``python tests/sizes.py``, as in ``./dev check``.

The limits are in ``pyproject.toml``. They only go down: ``--lower`` sets those that are above what
there is, by hundreds of lines, and nothing raises one.
"""

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PROJECT = ROOT / "pyproject.toml"
STEP = 100
"""Limits of lines are hundreds."""


def texts(size: dict[str, Any]) -> Iterator[str]:
    """Return the texts of modules below folders, but for those with a name of ``without``."""
    without = re.compile(size.get("without", "$^"))
    for folder in (found for pattern in size["folders"] for found in ROOT.glob(pattern)):
        for path in folder.rglob("*.py"):
            if not without.search(path.relative_to(folder).as_posix()):
                yield path.read_text()


def count(size: dict[str, Any]) -> int:
    """Return the lines of modules, as ``wc -l`` counts them, or how often a pattern occurs."""
    found = texts(size)
    if "pattern" not in size:
        return sum(text.count("\n") for text in found)
    pattern = re.compile(size["pattern"], re.MULTILINE)
    return sum(len(pattern.findall(text)) for text in found)


def lowered(text: str, name: str, limit: int, to: int) -> str:
    """Return the project's file with another limit."""
    head, begin, rest = text.partition(f'[tool.sizes."{name}"]\n')
    return head + begin + rest.replace(f"limit = {limit}\n", f"limit = {to}\n", 1)


def main(arguments: list[str]) -> int:
    text = PROJECT.read_text()
    exceeded = 0
    for name, size in tomllib.loads(text)["tool"]["sizes"].items():
        number, limit = count(size), size["limit"]
        if "--lower" in arguments:
            step = 1 if "pattern" in size else STEP
            to = min(limit, -(-number // step) * step)
            text, limit = lowered(text, name, limit, to), to
        over = "" if number <= limit else f": {number - limit:,} too many"
        exceeded += bool(over)
        print(f"{name}: {number:,} of at most {limit:,}{over}")
    if "--lower" in arguments:
        PROJECT.write_text(text)
    return min(exceeded, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
