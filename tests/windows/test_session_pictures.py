"""The pictures of docs/sessions.md are drawn from the files beside them."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))
import query11
import reduce

DOCS = Path(__file__).parents[2] / "docs"
FILES: dict[str, tuple[str, Callable[[Path], str]]] = {
    "query11.csv": ("query11.svg", query11.drawn),
    **{name: (f"reduce-{kind}.svg", reduce.drawn) for kind, name in reduce.FILES.items()},
}


@pytest.mark.parametrize("name", [name for name in FILES if (DOCS / name).exists()])
def test_a_picture_shows_the_runs_of_the_file_beside_it(name: str) -> None:
    picture, drawn = FILES[name]
    assert (DOCS / picture).read_text() == drawn(DOCS / name), "--draw --folder docs draws it anew"
