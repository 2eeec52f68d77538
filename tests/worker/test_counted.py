"""The metrics of bundles, against those that Beam makes of the same bundles."""

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.metrics import Metrics, monitoring_infos
from in_process_batch import BatchRunner

from sparkbeam.wire.consolidation import Infos
from sparkbeam.worker.steps.processor import StageProcessor

TIMES = {
    monitoring_infos.START_BUNDLE_MSECS_URN,
    monitoring_infos.PROCESS_BUNDLE_MSECS_URN,
    monitoring_infos.FINISH_BUNDLE_MSECS_URN,
    monitoring_infos.TOTAL_MSECS_URN,
}


class Dividing(beam.DoFn):
    def process(self, element: int) -> Iterator[Any]:
        Metrics.counter("own", "seen").inc()
        Metrics.distribution("own", "sizes").update(element)
        Metrics.string_set("own", "names").add(str(element))
        yield beam.pvalue.TaggedOutput("odd" if element % 2 else "even", element)


def by_key(infos: Infos) -> dict[Any, Any]:
    found = {monitoring_infos.to_key(info): info for info in infos}
    assert len(found) == len(infos)
    return found


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> list[tuple[dict[Any, Any], dict[Any, Any]]]:
    """What was counted of each bundle, here and by Beam."""
    found = []
    real = StageProcessor.monitoring_infos

    def noting(self: StageProcessor) -> Infos:
        infos = real(self)
        found.append((by_key(infos), by_key(self._processor.monitoring_infos())))
        return infos

    monkeypatch.setattr(StageProcessor, "monitoring_infos", noting)
    return found


def test_they_are_those_of_beam_but_for_what_is_nothing(both: Any) -> None:
    with beam.Pipeline(BatchRunner()) as p:
        divided = (
            p | beam.Create(range(50)) | beam.ParDo(Dividing()).with_outputs("odd", "even", "none")
        )
        odd = divided.odd | beam.WithKeys(lambda n: n % 3) | beam.GroupByKey()
        _ = (divided.even, divided.none) | beam.Flatten() | beam.CombineGlobally(sum)
        _ = odd | beam.Filter(lambda _: False) | "Never" >> beam.Map(str)
    assert both
    for ours, theirs in both:
        assert ours.keys() <= theirs.keys()
        for key, info in theirs.items():
            if key not in ours:
                assert is_nothing(info)
            elif info.urn not in TIMES:
                assert ours[key] == info
    urns = {info.urn for ours, _ in both for info in ours.values()}
    assert {monitoring_infos.ELEMENT_COUNT_URN, monitoring_infos.SAMPLED_BYTE_SIZE_URN} <= urns
    assert {monitoring_infos.USER_COUNTER_URN, monitoring_infos.USER_DISTRIBUTION_URN} <= urns


def test_each_step_has_a_time(both: Any) -> None:
    with beam.Pipeline(BatchRunner()) as p:
        _ = p | beam.Create([1]) | beam.Map(str) | beam.Map(len)
    for ours, theirs in both:
        times = [
            {key for key, info in infos.items() if info.urn == monitoring_infos.TOTAL_MSECS_URN}
            for infos in (ours, theirs)
        ]
        assert times[0] == times[1] != set()


def is_nothing(info: Any) -> bool:
    if info.urn == monitoring_infos.SAMPLED_BYTE_SIZE_URN:
        return not monitoring_infos.extract_distribution(info)[0]
    if info.urn == monitoring_infos.DATA_CHANNEL_READ_INDEX:
        return True  # The elements do not come over a channel of Beam's.
    return info.urn in TIMES and not monitoring_infos.extract_counter_value(info)
