"""Transfer of a summary from workers to the driver on any runner, by Beam counters."""

import apache_beam as beam
from apache_beam.metrics import Metrics, MetricsFilter
from apache_beam.runners.runner import PipelineResult

from beam_nexmark.result_digest import Summary

_NAMESPACE = "beam_nexmark"
_RESULTS = "results"
_PART_BITS = 32
_PARTS = {f"digest_{bit}": bit for bit in range(0, 128, _PART_BITS)}
"""Bit offsets of the parts of a digest; a counter holds 63 bits."""


class Publish(beam.DoFn):
    """DoFn that counts the parts of a summary."""

    def process(self, summary: Summary) -> None:
        count, digest = summary
        Metrics.counter(_NAMESPACE, _RESULTS).inc(count)
        for name, bit in _PARTS.items():
            part = int(digest, 16) >> bit & (1 << _PART_BITS) - 1
            Metrics.counter(_NAMESPACE, name).inc(part)


def published(result: PipelineResult) -> Summary:
    """Return the summary of a pipeline with :class:`Publish`.

    Raises:
        RuntimeError: the runner does not provide it.
    """
    found = result.metrics().query(MetricsFilter().with_namespace(_NAMESPACE))
    # Prism tells no number of a counter that is 0.
    counters = {counter.key.metric.name: counter.result or 0 for counter in found["counters"]}
    if not {_RESULTS, *_PARTS} <= counters.keys():
        raise RuntimeError("The runner reports no counters, and thus no results.")
    digest = sum(counters[name] << bit for name, bit in _PARTS.items())
    return Summary(counters[_RESULTS], f"{digest:032x}")
