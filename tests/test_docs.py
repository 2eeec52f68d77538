"""What the documents say of the code and of its speed is so."""

import ast
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from own_sources import sources

import sparkbeam

ROOT = Path(__file__).parents[1]
PACKAGE = Path(sparkbeam.__file__).parent
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(ROOT.glob("docs/*.md")),
    *sorted(ROOT.glob("packages/*/README.md")),
]

sys.path.insert(0, str(ROOT / "bench"))

import tables  # noqa: E402


def test_pages_have_the_figures_of_the_results_and_the_tables_of_the_code() -> None:
    for page, renewed in tables.PAGES.items():
        assert page.read_text() == renewed(page.read_text()), "run: python bench/tables.py"


def test_results_are_tables_of_programs_that_are_there() -> None:
    for file in tables.RESULTS.glob("*.json"):
        for name in json.loads(file.read_text()):
            found = tables.results(file.stem, name)
            assert {len(cells) for cells in found.rows} == {len(found.columns)}
            assert all((ROOT / program).exists() for program in found.programs())


@pytest.mark.parametrize("page", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_modules_that_a_page_names_are_there(page: str) -> None:
    named = set(re.findall(r"`([\w/]+\.py)`", (ROOT / page).read_text()))
    folders = ("bench", "docs", "packages", "sparkbeam", "tests")
    files = {str(p.relative_to(ROOT)) for name in folders for p in ROOT.glob(f"{name}/**/*.py")}
    files |= {*sources()}
    bare = {name.rpartition("/")[2] for name in files}
    assert {name for name in named if name not in (files if "/" in name else bare)} == set()


@pytest.mark.parametrize("folder", ["", "worker"], ids=["the package", "the worker"])
def test_the_architecture_lists_all_rooms(folder: str) -> None:
    tree = (ROOT / "docs" / "architecture.md").read_text().split("```")[1]
    rooms = {path.parent.name for path in (PACKAGE / folder).glob("*/__init__.py")}
    assert {room for room in rooms if f"{room}/" not in tree} == set()


def headings(page: Path) -> set[str]:
    """The anchors of a page, as GitHub forms them of its headings."""
    lines = re.findall(r"^#+ (.*)", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", line.lower()).replace(" ", "-") for line in lines}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_of_a_document_lead_somewhere(document: Path) -> None:
    for link in re.findall(r"\]\((?!https?:)([^)]+)", document.read_text()):
        name, _, anchor = link.partition("#")
        page = document.parent / name if name else document
        assert page.exists(), link
        assert not anchor or anchor in headings(page), link


def test_the_index_lists_all_documents() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert {page for page in pages if f"]({page})" not in index} == set()


def blocks(page: str) -> Iterator[tuple[int, str]]:
    """Paragraphs, items of lists and cells of tables, with the most words that each may have."""
    prose = re.sub(r"^ *```.*?```$|`[^`\n]*`", "", page, flags=re.DOTALL | re.MULTILINE)
    for line in re.findall(r"^\|.*", prose, re.MULTILINE):
        yield from ((20, cell) for cell in line.split("|"))
    text = re.sub(r"^(#|\||<).*", "", prose, flags=re.MULTILINE)
    yield from ((80, block) for block in re.split(r"\n\s*\n|\n\s*(?:[-*]|\d+\.) ", text))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_paragraphs_and_cells_are_short(document: Path) -> None:
    found = blocks(document.read_text())
    assert [text for most, text in found if len(re.findall(r"\w[\w'.-]*", text)) > most] == []


def test_messages_that_troubleshooting_explains_are_those_of_the_code() -> None:
    """As they stand there, without the quotes between the lines of a text."""
    page = (ROOT / "docs" / "troubleshooting.md").read_text()
    code = "".join(path.read_text() for path in sources().values())
    texts = re.sub(r'"\s+f?"', "", code)
    messages = re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE)
    assert messages
    assert [message for message in messages if message not in texts] == []


def test_messages_of_wrong_arguments_in_troubleshooting_are_those_of_the_tables() -> None:
    page = (ROOT / "docs" / "troubleshooting.md").read_text()
    _, _, section = page.partition("## An argument or an option is wrong\n")
    messages = re.findall(r"^\| `([^`]+)` \|", section.partition("\n## ")[0], re.MULTILINE)
    folders = [ROOT / "tests", *ROOT.glob("packages/*/tests")]
    tables = "".join(file.read_text() for path in folders for file in path.glob("*_misuse.txt"))
    assert messages
    assert [message for message in messages if message not in tables] == []


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
        (path.name, text)
        for path in sources().values()
        for text in docstrings(path)
        if question.match(text)
    ] == []
