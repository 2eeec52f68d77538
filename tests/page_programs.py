"""Programs of documents that need a server, run with options on the command line."""

import re
import runpy
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import pytest

DOCS = Path(__file__).parents[1] / "docs"


def run(
    page: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: Sequence[str],
    places: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Runs the first program of a page.

    Args:
        page: its name.
        folder: for the program.
        monkeypatch: for the command line.
        options: the options of the pipeline.
        places: texts in place of others, by those of the page.
    """
    block = re.search(r"```py\n(.*?)```", (DOCS / f"{page}.md").read_text(), re.DOTALL)
    assert block is not None
    code = block.group(1)
    for there, here in places.items():
        assert there in code, there
        code = code.replace(there, here)
    program = folder / "program.py"
    program.write_text(code)
    monkeypatch.setattr("sys.argv", [str(program), *options])
    runpy.run_path(str(program), run_name="__main__")
