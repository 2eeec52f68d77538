"""Labels do not tell in which cell of a notebook a step was written."""

import sys
from types import SimpleNamespace
from typing import Any

import apache_beam as beam
import pytest

from sparkbeam.plan.labels import rename, without_cells


@pytest.fixture
def in_ipython(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=object))


@pytest.mark.usefixtures("in_ipython")
@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("[3]: as_dataframe", "as_dataframe"),
        # A transform that is applied twice has the number of each cell.
        ("[12]: [3]: Map(len)", "Map(len)"),
        ("[3]: [x]: y", "[x]: y"),
        ("[3]: a [4]: b", "a [4]: b"),
        ("[3]: Total/[y]: z/ParDo", "Total/[y]: z/ParDo"),
        ("[3]: Map(<lambda at 2374382.py:1>)", "Map(<lambda>)"),
        ("Map(<lambda at <ipython-input-3-ab12>:1>)", "Map(<lambda>)"),
        ("Map(<lambda at ipython-input-3-1234.py:7>)", "Map(<lambda>)"),
        ("Map(<lambda at command-12-34:7>)", "Map(<lambda>)"),
        ("[3]: Total/[4]: Filter(<lambda at 12.py:1>)/ParDo", "Total/Filter(<lambda>)/ParDo"),
        ("Map(<lambda at program.py:12>)", "Map(<lambda at program.py:12>)"),
        ("Map(<lambda at 01_load.py:12>)", "Map(<lambda at 01_load.py:12>)"),
        ("Map(<lambda at 2024-05-load.py:12>)", "Map(<lambda at 2024-05-load.py:12>)"),
        ("Read [all]", "Read [all]"),
    ],
)
def test_a_label_has_no_cell(label: str, expected: str) -> None:
    assert without_cells(label) == expected


@pytest.mark.parametrize(
    "label", ["[3]: y", "[x]: y", "Total/[3]: y", "Map(<lambda at 2024.py:12>)"]
)
def test_a_program_has_no_cells(label: str) -> None:
    assert without_cells(label) == label


@pytest.mark.usefixtures("in_ipython")
def test_a_number_is_a_cell_in_a_notebook() -> None:
    assert without_cells("Map(<lambda at 2374382.py:1>)") == "Map(<lambda>)"
    assert without_cells("Map(<lambda at 01_load.py:12>)") == "Map(<lambda at 01_load.py:12>)"


def renamed(pipeline: beam.Pipeline) -> Any:
    """The proto of a pipeline that was made in a notebook."""
    proto = pipeline.to_runner_api()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=object))
        rename(proto)
    return proto


def labels(cells: tuple[int, int]) -> list[str]:
    """Those of a pipeline whose steps were written in two cells of a notebook."""
    pipeline = beam.Pipeline()
    numbers = pipeline | "Numbers" >> beam.Create([1])
    for cell in cells:
        numbers = numbers | f"[{cell}]: Map(<lambda at {cell}99.py:1>)" >> beam.Map(str)
    proto = renamed(pipeline)
    named = {id: proto.components.transforms[id].unique_name for id in proto.components.transforms}
    return [named[id] for id in sorted(named) if "lambda>" in named[id]]


def test_steps_of_one_name_are_numbered_as_they_were_applied() -> None:
    found = labels((3, 4))
    assert sorted(found) == ["Map(<lambda>)", "Map(<lambda>)_2"]


def test_numbers_of_equal_names_are_those_of_no_other_step() -> None:
    pipeline = beam.Pipeline()
    for label in ("[1]: a", "[2]: a", "[2]: a_2", "[3]: a", "[4]: [x]: a"):
        _ = pipeline | label >> beam.Create([1])
    proto = renamed(pipeline)
    names = [transform.unique_name for transform in proto.components.transforms.values()]
    assert len(names) == len({*names})
    assert {"a", "a_2", "a_2_2", "a_3", "[x]: a"} <= {*names}


def test_cells_that_run_again_make_the_same_labels() -> None:
    assert labels((3, 4)) == labels((12, 8))
