"""A few trials of the fuzzer, the same ones each time: ``bench/fuzz.py`` has more of them."""

from random import Random

import fuzzing
import pytest
from fuzzedpipelines import try_pipeline
from fuzzing import Figures, try_function
from in_python import called
from whole import is_whole

pytestmark = pytest.mark.blocks(reason="Beam's own operations get no columns")


def test_random_functions_give_the_same_over_columns() -> None:
    figures = Figures()
    for number in range(150):
        assert try_function(Random(f"functions-{number}"), figures) is None
    assert figures.blocks > 200


def test_random_pipelines_give_the_same_over_columns() -> None:
    figures = Figures()
    for number in range(60 if is_whole() else 6):
        assert try_pipeline(Random(number), figures, is_sampled=number < 2) is None
    assert figures.evaluated > 5
    assert figures.other_runners


def test_a_difference_is_shown_with_few_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*args: object) -> object:
        results = called(*args)  # type: ignore[arg-type]
        if isinstance(results, Exception) or not any(x.a == 2 for x in args[1]):  # type: ignore[attr-defined]
            return results
        return [(at, "another result") for at, _ in results]

    monkeypatch.setattr(fuzzing, "called", wrong)
    found = [try_function(Random(f"functions-{number}"), Figures()) for number in range(60)]
    shown = [one for one in found if one is not None]
    assert shown
    elements = [one.partition("\nelements: ")[2].partition("\n")[0] for one in shown]
    assert all(one.count("Element(") == 1 and "a=2" in one for one in elements)
    assert all("each array is 'plain'" in one for one in shown)
