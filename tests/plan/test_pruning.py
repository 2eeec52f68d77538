"""Of a pipeline, what one of its transforms needs."""

import apache_beam as beam
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.testing.util import assert_that, equal_to

from sparkbeam.plan import validity
from sparkbeam.plan.pruning import last_applied, pruned


def labels(proto: beam_runner_api_pb2.Pipeline) -> set[str]:
    """Of the transforms that the user has applied."""
    transforms = proto.components.transforms
    return {
        transforms[part].unique_name
        for root in proto.root_transform_ids
        for part in transforms[root].subtransforms
    }


def id_of(proto: beam_runner_api_pb2.Pipeline, label: str) -> str:
    (id,) = (id for id, one in proto.components.transforms.items() if one.unique_name == label)
    return id


def test_only_what_leads_to_it_is_left_and_holds_together() -> None:
    pipeline = beam.Pipeline()
    numbers = pipeline | "Numbers" >> beam.Create([1])
    side = pipeline | "Side" >> beam.Create([2])
    parts = numbers | "Parts" >> beam.Map(str).with_outputs("other", main="main")
    added = numbers | "Added" >> beam.Map(lambda x, s: x + s, beam.pvalue.AsSingleton(side))
    _ = added | "After" >> beam.Map(str)
    _ = parts.other | "Beside" >> beam.GroupBy(str)
    _ = pipeline | "Apart" >> beam.Create([3]) | "Written" >> beam.io.WriteToText("/nowhere")
    assert_that(added, equal_to([3]))
    proto = pipeline.to_runner_api()
    whole = proto.SerializeToString(deterministic=True)
    left = pruned(proto, id_of(proto, "Added"))
    validity.check(left)
    assert labels(left) == {"Numbers", "Side", "Added"}
    assert proto.SerializeToString(deterministic=True) == whole
    assert labels(pruned(proto, id_of(proto, "Beside"))) == {"Numbers", "Parts", "Beside"}


def test_of_a_composite_all_that_leads_to_its_parts_is_left() -> None:
    pipeline = beam.Pipeline()
    numbers = pipeline | "Numbers" >> beam.Create([1])
    _ = numbers | "Flat" >> beam.Map(str)
    _ = (numbers, pipeline | "More" >> beam.Create([2])) | "Both" >> beam.Flatten()
    _ = numbers | "Written" >> beam.io.WriteToText("/nowhere")
    proto = pipeline.to_runner_api()
    left = pruned(proto, last_applied(proto))
    validity.check(left)
    assert labels(left) == {"Numbers", "Written"}
