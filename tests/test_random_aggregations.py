"""Combines and groups give what plain Python and Beam's trigger driver give.

``bench/randompipelines.py`` goes on with others for as long as one likes.
"""

import random

import pytest
from random_aggregations import *  # noqa: F403 - what a case is made of, by its repr.
from random_aggregations import aggregations
from random_runs import How, Trial, wrong_in_batch
from whole import is_whole

TIMES = 10 if is_whole() else 1


@pytest.mark.parametrize("seed", range(80 * TIMES))
def test_a_batch_has_the_results_of_plain_python(seed: int) -> None:
    made = aggregations(random.Random(f"batch {seed}"))
    assert not wrong_in_batch(made), made


@pytest.mark.parametrize("seed", range(30 * TIMES))
def test_a_stream_has_the_panes_of_beams_trigger_driver(seed: int) -> None:
    chance = random.Random(f"stream {seed}")
    made = aggregations(chance)
    way = How(chance.choice([1, 2, 200]), chance.choice([1, 1, 2]), chance.choice([0, 0, 12]))
    trial = Trial(made, way)
    assert not trial.problem(), trial
