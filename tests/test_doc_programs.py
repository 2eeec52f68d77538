"""The programs in documents run as written, and print what stands below them."""

import doctest
import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROGRAMS = ("tour.md",)
BLOCK = re.compile(r"```python\n(.*?)```(?:\n+```text\n(.*?)```)?", re.DOTALL)

pytestmark = pytest.mark.usefixtures("spark")


def programs() -> list[object]:
    """Each program with its output, by document and heading."""
    found: list[object] = []
    for name in PROGRAMS:
        for section in re.split(r"^## ", (ROOT / "docs" / name).read_text(), flags=re.MULTILINE):
            heading = section.partition("\n")[0]
            found += [
                pytest.param(code, output, id=f"{name}: {heading}")
                for code, output in BLOCK.findall(section)
            ]
    return found


def lines(text: str) -> list[str]:
    return sorted(line for line in text.splitlines() if line)


@pytest.mark.parametrize(("code", "output"), programs())
def test_a_program_prints_what_stands_below_it(
    code: str,
    output: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    program = tmp_path / "program.py"
    program.write_text(code)
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(program), run_name="__main__")
    printed = capfd.readouterr().out
    if "..." in output:
        rules = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        assert doctest.OutputChecker().check_output(output, printed, rules), printed
    else:  # Tasks print in any order.
        assert lines(printed) == lines(output)
