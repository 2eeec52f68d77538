"""Combines and groups give what plain Python and Beam's trigger driver give.

``bench/randompipelines.py`` goes on with others for as long as one likes.
"""

import random
from dataclasses import replace
from tempfile import TemporaryDirectory

import pytest
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP
from in_process import Checkpoint, Measured, rounds, streaming_pipeline
from physical import FORMS
from random_aggregations import WINDOWS, Aggregations, Arrival, aggregations
from random_combines import KEYS, VALUES
from random_pipelines import Window
from random_runs import How, Trial, wrong_in_batch
from whole import is_whole

TIMES = 10 if is_whole() else 1


@pytest.mark.parametrize("seed", range(50 * TIMES))
def test_a_batch_has_the_results_of_plain_python(seed: int) -> None:
    made = aggregations(random.Random(f"batch {seed}"))
    assert not wrong_in_batch(made), made


@pytest.mark.parametrize(
    "given",
    [
        *({"keys": kind} for kind in KEYS),
        *({"values": kind} for kind in VALUES),
        *({"form": form} for form in FORMS),
    ],
    ids=lambda given: " ".join(given.values()),
)
def test_each_kind_of_keys_and_values_is_aggregated(given: dict[str, str]) -> None:
    made = aggregations(random.Random(repr(given)), **given)
    assert not wrong_in_batch(made), made


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("combiner", ["", "latest"])
def test_windows_may_be_shorter_than_what_coders_keep(combiner: str, columns: bool) -> None:
    blocks = (("a", 5000, 1), ("b", 5001, 2), ("a", 5000, 3)), (("a", 5001, 3),)
    window = Window("fixed", 0.0005, 0, combiner)
    combines = ("count", "group", "own", "sum")
    made = Aggregations(
        (Arrival(blocks, 6),), "text", "small", window, 0, combines, columns=columns
    )
    assert not wrong_in_batch(made)


@pytest.mark.parametrize("seed", range(30 * TIMES))
def test_a_stream_has_the_panes_of_beams_trigger_driver(seed: int) -> None:
    chance = random.Random(f"stream {seed}")
    made = aggregations(chance)
    way = How(chance.choice([1, 2, 200]), chance.choice([1, 1, 2]), chance.choice([0, 0, 12]))
    trial = Trial(made, way)
    assert not trial.problem(), trial


def test_elements_are_in_the_shards_of_columns() -> None:
    """The output watermark of a shard, which holds of other keys delay, decides on timestamps."""
    arrivals = (
        Arrival((((("a", 1), 24_500, 1),),), 29),
        Arrival((((("ä", 300), 24_971, 1),),), 39),
    )
    made = Aggregations(arrivals, "pair", "small", Window("fixed", 7, 3, "earliest"))
    assert not Trial(made, How()).problem()


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_elements_may_be_at_the_ends_of_time(window: Window, columns: bool) -> None:
    first, last = MIN_TIMESTAMP.micros // 1000, MAX_TIMESTAMP.micros // 1000
    times = [first, first + 1, first + 5001, 0, 1, last - 5001, last - 1, last]
    block = tuple((key, time, number) for number, time in enumerate(times) for key in "aba")
    combines = ("count", "group", "list", "sum")
    made = Aggregations((Arrival((block,), 0),), "text", "small", window, 0, combines)
    assert not wrong_in_batch(replace(made, columns=columns))


def test_few_keys_of_many_are_written_alone() -> None:
    """In the state of a stream, where each micro-batch has its own bytes."""
    count = 20_000
    blocks = [tuple((key, 0, 1) for key in range(count)), ((0, 1000, 1),), ((0, 2000, 1),)]
    arrivals = tuple(Arrival((block,), second) for second, block in enumerate(blocks, 1))
    made = Aggregations(arrivals, "int", "small", Window("fixed", 100), combines=("sum",))
    spark = Measured(written_last)
    with TemporaryDirectory() as folder, rounds(1):
        p = streaming_pipeline(spark, folder, "--allow_unsafe_triggers")
        made.build(p, streaming=True)
        p.run().wait_until_finish()
    first, *others = spark.found
    assert first < 20 * count
    assert max(others) < first / 50


def written_last(checkpoint: Checkpoint) -> int:
    """The bytes of the entries of state that the last micro-batch has changed."""
    before, after = (checkpoint.states[n] for n in (checkpoint.commits - 1, checkpoint.commits))
    return sum(
        len(value)
        for place, entries in after.items()
        for name, value in entries.items()
        if before.get(place, {}).get(name) != value
    )


@pytest.mark.parametrize("streaming", [False, True])
def test_slices_of_a_window_may_add_up_beyond_64_bits(streaming: bool) -> None:
    large = 1 << 62
    blocks = (
        (("a", 500, large), ("a", 3500, large), ("b", 500, 1), ("b", 3500, 2)),
        (("a", 4000, 1),),
    )
    window = Window("sliding", 6, 3)
    made = Aggregations(
        (Arrival(blocks, 6),), "text", "large", window, 0, ("several", "sum"), columns=True
    )
    assert not (Trial(made, How()).problem() if streaming else wrong_in_batch(made))
