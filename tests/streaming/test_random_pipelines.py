"""A streaming query finds what the same pipeline finds in batch, whatever it is made of.

``bench/randompipelines.py`` goes on with others for as long as one likes.
"""

import random

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import environments
from random_cases import case
from random_panes import Panes, panes
from random_pipelines import *  # noqa: F403 - what a case is made of, by its repr.
from random_pipelines import Add, Case, Group, Reshuffle, To, Window
from random_runs import How, Trial, how

from sparkbeam import SparkRunner
from sparkbeam.operators.registry import operators_of
from sparkbeam.plan.addresses import addresses
from sparkbeam.plan.fingerprint import fingerprint, to_store
from sparkbeam.plan.layers import topology
from sparkbeam.plan.translate import translate


@pytest.mark.part(3)
@pytest.mark.parametrize("seed", range(10))
def test_streaming_finds_what_batch_finds(seed: int) -> None:
    chance = random.Random(f"pipeline {seed}")
    trial = Trial(case(chance), how(chance), beams=seed % 5 == 0)
    assert not trial.problem(), trial


@pytest.mark.part(3)
@pytest.mark.parametrize("seed", range(10))
def test_panes_have_each_element_that_is_not_too_late(seed: int) -> None:
    chance = random.Random(f"panes {seed}")
    trial = Trial(panes(chance), how(chance))
    assert not trial.problem(), trial


@pytest.mark.part(7)
@pytest.mark.parametrize("seed", range(30))
def test_the_same_program_keeps_the_numbers_of_all_its_ports(seed: int) -> None:
    """Also of those that only stages without state read."""
    options = PipelineOptions(["--streaming", "--allow_unsafe_triggers"])
    pipeline = beam.Pipeline(runner=SparkRunner(), options=options)
    case(random.Random(seed)).build(pipeline, streaming=True)
    environment = environments.EmbeddedPythonEnvironment.default()
    proto = pipeline.to_runner_api(default_environment=environment)
    made = topology(translate(proto, operators_of, streaming=True))
    new = fingerprint(made, 2)
    first = addresses(None, new)
    again = addresses(to_store(made, 2, first), new)
    assert (again.tags, again.stages) == (first.tags, first.stages)


LATE = Panes(
    timeline=(Add((("a", 0, 5),)), To(10), Add((("a", 0, 6), ("a", 0, 12)))),
    window=Window("fixed", 10),
    trigger="default",
    accumulates=False,
    lateness=0,
    how="group",
    again=False,
)


def test_what_is_missing_or_late_or_too_much_is_noticed() -> None:
    """The comparison itself sees what it is for."""
    first, second = ("a", (0, 10), 0, 1, True, True, [0]), ("a", (10, 20), 0, 1, True, True, [2])
    assert not LATE.wrong([first, second], 1)
    assert "dropped" in LATE.wrong([first, second], 0)
    assert "missing" in LATE.wrong([first], 1)
    assert "too many" in LATE.wrong([first, second, ("a", (0, 10), 1, 2, False, True, [1])], 1)


def test_a_case_is_python_that_makes_it_again() -> None:
    made = case(random.Random(7))
    assert eval(repr(made)) == made


class Wrong(Trial):
    """Finds fault with all that groups."""

    def problem(self) -> str:
        assert isinstance(self.case, Case)
        return "grouped" if any(isinstance(step, Group) for step in self.case.steps) else ""


def test_the_smallest_case_has_nothing_that_is_not_needed() -> None:
    some = Add(tuple(("a", number, number) for number in range(40)))
    steps = (Reshuffle((0,)), Reshuffle((1,)), Group((2,), "each"), Reshuffle((3,)))
    less = Wrong(Case(((some, To(50), some),), steps), How(rounds=5, crashes=4)).smallest()
    assert less == Wrong(Case(((),), (Group((0,), "each"),)), How())
