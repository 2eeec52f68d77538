"""How often the rows of a stage are read, which says whether they are kept."""

from typing import Any

import apache_beam as beam
from plans import translated

from sparkbeam.plan.model import Plan

PAIRS = tuple[int, int]


def most_reads(plan: Plan) -> int:
    return max(plan.reads(stage) for stage in plan.stages)


def two(p: beam.Pipeline) -> Any:
    """Two PCollections of one stage."""
    numbers = p | beam.Create([1, 2]) | beam.Reshuffle()
    ones = numbers | "ones" >> beam.Map(lambda number: (number, 1)).with_output_types(PAIRS)
    twos = numbers | "twos" >> beam.Map(lambda number: (number, 2)).with_output_types(PAIRS)
    return ones, twos


def test_what_is_read_as_one_input_is_read_once() -> None:
    _, plan = translated(lambda p: two(p) | beam.CoGroupByKey() | beam.Map(print))
    assert most_reads(plan) == 1


def test_what_is_flattened_with_itself_is_read_twice() -> None:
    def build(p: beam.Pipeline) -> None:
        ones, twos = two(p)
        _ = (ones, twos, ones) | beam.Flatten() | beam.GroupByKey() | beam.Map(print)

    _, plan = translated(build)
    assert most_reads(plan) == 2


def test_each_stage_that_reads_counts() -> None:
    def build(p: beam.Pipeline) -> None:
        ones, twos = two(p)
        _ = ones | "one" >> beam.GroupByKey() | "print" >> beam.Map(print)
        _ = (ones, twos) | beam.CoGroupByKey() | "print both" >> beam.Map(print)

    _, plan = translated(build)
    assert most_reads(plan) == 2
