"""What is found once while a pipeline is translated, and forgotten afterwards."""

import gc
from pathlib import Path
from typing import Any
from weakref import WeakSet

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from plans import planned

from sparkbeam.columns import compile_function
from sparkbeam.plan import pardo_functions
from sparkbeam.plan.memo import memo, memoized
from sparkbeam.plan.row_formats import GroupRows

loads: list[Any] = []
alive = WeakSet[Any]()


class Large:
    """Something of the user's that tells when it is loaded."""

    def __reduce__(self) -> Any:
        return _large, ()


def _large() -> Large:
    made = Large()
    loads.append(1)
    alive.add(made)
    return made


class Marks(beam.DoFn):
    def __init__(self, large: Large) -> None:
        super().__init__()
        self._large = large

    def process(self, element: int) -> Any:
        yield element, 1


def marked(p: beam.Pipeline) -> None:
    counts = p | beam.Create([1, 2]) | beam.ParDo(Marks(Large())) | beam.GroupByKey()
    _ = counts | beam.MapTuple(lambda key, ones: (key, len(list(ones)))) | beam.Map(print)
    loads.clear()  # Beam loads it, too, where the pipeline is built.


def test_a_dofn_is_loaded_once_in_a_translation_and_forgotten() -> None:
    assert planned(marked).stages
    assert len(loads) == 1
    gc.collect()
    assert not alive


def test_a_function_is_compiled_once_in_a_translation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pq.write_table(pa.table({"n": [1, 2], "name": ["a", "b"]}), tmp_path / "rows.parquet")
    compiled: list[Any] = []

    def noting(function: Any, *shapes: Any, **how: Any) -> Any:
        compiled.append(function)
        return compile_function(function, *shapes, **how)

    monkeypatch.setattr(pardo_functions, "compile_function", noting)
    pair = lambda row: (row["n"], row["name"])  # noqa: E731
    read = beam.io.ReadFromParquet(f"{tmp_path}/*.parquet")
    plan = planned(lambda p: p | read | beam.Map(pair) | beam.GroupByKey() | beam.Map(print))
    assert any(stage.format == GroupRows(packed=True) for stage in plan.stages)
    assert [one.__name__ for one in compiled] == [pair.__name__, print.__name__]


@memoized
def listed(number: int) -> list[int]:
    return [number]


def test_results_are_remembered_within_a_memo() -> None:
    assert listed(1) is not listed(1)
    with memo():
        first = listed(1)
        assert listed(1) is first
        assert listed(number=1) == first
        assert listed(2) == [2]
        with memo():
            assert listed(1) is first
        assert listed(1) is first
    with memo():
        assert listed(1) is not first


def test_they_are_forgotten_after_an_error() -> None:
    def failing() -> None:
        with memo():
            remembered.append(listed(1))
            raise ValueError("wrong")

    remembered: list[list[int]] = []
    with pytest.raises(ValueError, match="wrong"):
        failing()
    with memo():
        assert listed(1) is not remembered[0]
