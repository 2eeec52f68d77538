"""A checkpoint goes on under each newer version of Spark that ``./dev pyspark`` has set up here."""

import sys
from itertools import combinations
from pathlib import Path

import pytest
from command import execute
from whole import is_whole

ROOT = Path(__file__).parents[2]
PREFIX = ".venv-pyspark-"
PROGRAM = Path(__file__).parent / "continuing.py"
NOW = "this"

PYTHONS = {
    path.name.removeprefix(PREFIX): path / "bin" / "python"
    for path in sorted(ROOT.glob(f"{PREFIX}4.*"))
}


def run(version: str, folder: Path, number: int) -> None:
    python = PYTHONS.get(version, Path(sys.executable))
    execute(*(python, PROGRAM, folder, number), PYTHONPATH=str(ROOT), PYSPARK_PYTHON=str(python))


def lines(folder: Path, versions: list[str]) -> list[str]:
    """What runs put out that follow each other over a checkpoint."""
    folder.mkdir()
    for number, version in enumerate(versions):
        run(version, folder, number)
    return sorted((folder / "out").read_text().splitlines())


@pytest.mark.skipif(not is_whole(), reason="takes minutes; ./dev test --whole runs it")
@pytest.mark.skipif(not PYTHONS, reason="./dev pyspark VERSION has set up no other version")
@pytest.mark.parametrize(
    "versions", combinations([*PYTHONS, NOW], min(3, 1 + len(PYTHONS))), ids=" to ".join
)
def test_a_checkpoint_goes_on(versions: tuple[str, ...], tmp_path: Path) -> None:
    found = lines(tmp_path / "changed", [*versions])
    assert found == lines(tmp_path / "same", [NOW] * len(versions))
    assert any(line.startswith("sum") for line in found)
