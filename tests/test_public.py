"""What is exported: names, their lists and the modules that they come from agree."""

import ast
import importlib
import sys
from pathlib import Path

import pytest
from command import python
from own_sources import PACKAGES

import sparkbeam

ROOT = Path(__file__).parents[1]

sys.path.insert(0, str(ROOT / "docs"))

import api  # noqa: E402


def imported(body: list[ast.stmt]) -> dict[str, str]:
    """The names that statements import from modules, with these."""
    return {
        alias.asname or alias.name: node.module or ""
        for node in body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def of_package(name: str) -> list[ast.stmt]:
    return ast.parse(Path(str(importlib.import_module(name).__file__)).read_text()).body


@pytest.mark.parametrize("package", ["sparkbeam", "sparkbeam_eventhubs", "sparkbeam_sql"])
def test_what_type_checkers_see_is_what_is_loaded(package: str) -> None:
    (seen,) = (node for node in of_package(package) if isinstance(node, ast.If))
    module = importlib.import_module(package)
    assert imported(seen.body) == module._HOMES
    others = {"__version__"} & {*vars(module)}
    assert sorted(module.__all__) == sorted([*module._HOMES, *others])
    assert all(hasattr(module, name) for name in module.__all__)


@pytest.mark.parametrize(
    "package",
    [
        "sparkbeam.coders",
        "pyspark_eventhubs",
        "sparkbeam.io",
        "beam_nexmark.generator",
        "pyspark_eventhubs.testing",
    ],
)
def test_a_package_exports_what_it_imports_for_that(package: str) -> None:
    exported = importlib.import_module(package).__all__
    names = imported(of_package(package)).keys()
    assert sorted(exported) == sorted(name for name in names if not name.startswith("_"))


def test_what_is_exported_is_shown() -> None:
    assert set(sparkbeam.__all__) <= set(dir(sparkbeam))


def test_there_is_nothing_else() -> None:
    with pytest.raises(AttributeError, match="'sparkbeam' has no attribute 'Runner'"):
        _ = sparkbeam.Runner


def test_an_import_loads_neither_beam_nor_pyspark() -> None:
    program = "import sparkbeam, sys; print({'apache_beam', 'pyspark'} & {*sys.modules})"
    assert python("-c", program).stdout.strip() == "set()"


def test_annotations_are_shipped() -> None:
    assert [package for package in PACKAGES if not (package / "py.typed").is_file()] == []


def test_the_documented_names_are_generated_from_the_code() -> None:
    assert api.PAGE.read_text() == api.page(), "run: python docs/api.py"
