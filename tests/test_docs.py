"""What the documents say of the code and of its speed is so."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import sparkbeam

ROOT = Path(__file__).parents[1]
PACKAGE = Path(sparkbeam.__file__).parent
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()

sys.path.insert(0, str(ROOT / "bench"))

import figures  # noqa: E402


def test_readme_has_the_figures_of_the_benchmarks() -> None:
    readme = (ROOT / "README.md").read_text()
    benchmarks = (ROOT / "docs" / "benchmarks.md").read_text()
    assert readme == figures.with_figures(readme, benchmarks), "run: python bench/figures.py"


def modules(text: str) -> set[str]:
    """Modules that are named with their path, or stand for themselves."""
    return set(re.findall(r"`([\w/]+\.py)`", text))


def test_modules_that_the_architecture_names_are_there() -> None:
    files = {str(path.relative_to(ROOT)) for path in ROOT.glob("tests/**/*.py")}
    files |= {str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py")}
    bare = {name.rpartition("/")[2] for name in files}
    assert {
        name for name in modules(ARCHITECTURE) if name not in (files if "/" in name else bare)
    } == set()


@pytest.mark.parametrize("folder", ["", "worker"], ids=["the package", "the worker"])
def test_the_architecture_lists_all_rooms(folder: str) -> None:
    tree = ARCHITECTURE.split("```")[1]
    rooms = {path.parent.name for path in (PACKAGE / folder).glob("*/__init__.py")}
    assert {room for room in rooms if f"{room}/" not in tree} == set()


def test_links_between_documents_lead_somewhere() -> None:
    documents = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
    for document in documents:
        for link in re.findall(r"\]\((?!https?:|#)([^)#]+)", document.read_text()):
            assert (document.parent / link).exists(), (document.name, link)


PLAIN_ROOMS = (
    "batch cli coders common connectors inspection io joins options run runner spark streaming wire"
)
MODULES = [PACKAGE / "state.py", PACKAGE / "errors.py"]
MODULES += [path for room in PLAIN_ROOMS.split() for path in (PACKAGE / room).rglob("*.py")]


def docstrings(path: Path) -> Iterator[str]:
    """Docstrings of a module, its classes and functions, and its attributes."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            continue
        for statement in node.body:
            match statement:
                case ast.Expr(ast.Constant(str(text))):
                    yield text


def test_docstrings_begin_with_a_verb_or_a_noun_and_not_with_a_question() -> None:
    question = re.compile(r"(What|Whether|How|Where|Which|Who|Whom|Whose|Why|When)\b")
    assert [
        (path.name, text) for path in MODULES for text in docstrings(path) if question.match(text)
    ] == []
