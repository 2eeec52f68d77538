"""Transforms that no pipeline may have."""

import apache_beam as beam
import pytest

from sparkbeam.errors import UnsupportedTransform
from sparkbeam.plan import support


def test_a_source_that_each_runner_brings_itself_is_named() -> None:
    p = beam.Pipeline()
    _ = p | "events" >> beam.io.ReadFromPubSub(topic="projects/my-project/topics/events")
    with pytest.raises(UnsupportedTransform, match=r"'events/Read'.* Pub/Sub.*ReadFromPubSub"):
        support.check(p.to_runner_api())
