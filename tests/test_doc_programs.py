"""The programs in documents run as written, and print what stands below them."""

import doctest
import re
import runpy
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from sparkbeam.spark.capabilities import settings_for_now

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
BLOCK = re.compile(r"```python\n(.*?)```(?:\n+```text\n(.*?)```)?", re.DOTALL)
YAML = re.compile(r"```yaml\n(pipeline:\n.*?)```(?:.*?```text\n(.*?)```)?", re.DOTALL)
BEGIN = "import apache_beam as beam\n"
ENDED = "--- end of a block ---"
RULES = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Block(NamedTuple):
    """A block of Python, and the output that stands below it."""

    code: str
    output: str


def programs() -> list[object]:
    """The blocks of each program: a block without the import of Beam continues the one above it."""
    found: list[tuple[str, list[Block]]] = []
    for page in PAGES:
        text = page.read_text()
        for block in BLOCK.finditer(text):
            code, output = block.groups(default="")
            if BEGIN in code or not found or not found[-1][0].startswith(f"{page.name}:"):
                found.append((f"{page.name}:{text.count(chr(10), 0, block.start()) + 1}", []))
            found[-1][1].append(Block(code, output))
    return [pytest.param(blocks, id=place) for place, blocks in found]


def pipelines() -> list[object]:
    """The blocks of Beam YAML, each with the next text: the lines of the files that it writes."""
    page = ROOT / "docs" / "yaml.md"
    return [
        pytest.param(*block.groups(), id=f"{page.name}:{number}")
        for number, block in enumerate(YAML.finditer(page.read_text()))
    ]


def same(expected: str, printed: str) -> bool:
    """Return whether the lines are those expected, in any order, as tasks run side by side."""
    check = doctest.OutputChecker().check_output
    return check(expected, printed, RULES) or check(ordered(expected), ordered(printed), RULES)


def ordered(text: str) -> str:
    return "\n".join(sorted(text.splitlines()))


@pytest.fixture
def adaptive(spark: Any) -> Iterator[None]:
    """Adaptive execution, which the session of a user has."""
    with settings_for_now(spark, {"spark.sql.adaptive.enabled": "true"}):
        yield


@pytest.mark.part(5)
@pytest.mark.usefixtures("adaptive")
@pytest.mark.parametrize("program", programs())
def test_a_program_prints_what_stands_below_it(
    program: list[Block],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    file = tmp_path / "program.py"
    file.write_text("\n".join(chain(*((code, f"print({ENDED!r})\n") for code, _ in program))))
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(file), run_name="__main__")
    *printed, _ = capfd.readouterr().out.split(f"{ENDED}\n")
    for block, lines in zip(program, printed, strict=True):
        assert same(block.output, lines), lines


@pytest.mark.part(3)
@pytest.mark.usefixtures("adaptive")
@pytest.mark.parametrize(("pipeline", "expected"), pipelines())
def test_a_pipeline_of_beam_yaml_writes_the_lines_below_it(
    pipeline: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = pytest.importorskip("apache_beam.yaml.main")
    monkeypatch.chdir(tmp_path)
    Path("pipeline.yaml").write_text(pipeline)
    main.run(["--yaml_pipeline_file=pipeline.yaml", "--runner=sparkbeam.SparkRunner"])
    written = "".join(file.read_text() for file in Path().glob("*.json*"))
    assert same(expected, written), written
