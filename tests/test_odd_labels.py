"""Transforms with any label: their pipelines run, in batch and as streams."""

from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to
from in_process import StreamingRunner
from in_process_batch import BatchRunner

from sparkbeam import SparkRunner
from sparkbeam.errors import ConfigurationError

LABELS = ["zero \0 byte", "\x1b[2Jcleared", "two\nlines", "\u202eturned", "\x85\x9b", "a\tb\r"]


def pipeline(runner: Any, *options: str) -> None:
    with beam.Pipeline(runner=runner, options=PipelineOptions(list(options))) as p:
        values = p | f"Make {LABELS[0]}" >> beam.Create([1, 2, 3])
        for label in LABELS:
            values |= label >> beam.Map(lambda x: x + 1)
        sums = (
            values
            | "Key \0\x1b" >> beam.WithKeys(lambda x: x % 2)
            | "Group \0\x1b" >> beam.GroupByKey()
            | "Sum \0\x1b" >> beam.MapTuple(lambda key, found: sum(found))
        )
        assert_that(sums, equal_to([8, 16]), label="Check \0")


def test_in_batch() -> None:
    pipeline(BatchRunner())


def test_as_a_stream() -> None:
    pipeline(StreamingRunner(), "--streaming")


@pytest.mark.parametrize(
    ("runner", "options"), [(BatchRunner, []), (StreamingRunner, ["--streaming"])]
)
def test_a_step_may_have_the_id_of_an_end_of_its_stage(runner: Any, options: list[str]) -> None:
    with beam.Pipeline(runner=runner(), options=PipelineOptions(options)) as p:
        pairs = p | "source_s0" >> beam.Create([("a", 1), ("a", 2)])
        for number in range(4):
            pairs |= f"sink_{number}" >> beam.Map(lambda pair: pair)
        sums = pairs | beam.GroupByKey() | "source_s1" >> beam.MapTuple(lambda key, of: sum(of))
        assert_that(sums, equal_to([3]), label="sink_4")


@pytest.mark.part(2)
@pytest.mark.parametrize("options", [("--streaming",), ()])
def test_on_spark(spark: Any, options: tuple[str, ...]) -> None:
    pipeline(SparkRunner(spark), *options)


@pytest.mark.parametrize("runner", [BatchRunner, StreamingRunner])
def test_half_of_a_character_is_refused_in_words(runner: Any) -> None:
    p = beam.Pipeline(runner=runner())
    _ = p | "half \ud800" >> beam.Create([1])
    with pytest.raises(ConfigurationError, match=r"label.*half \\ud800"):
        p.run()
