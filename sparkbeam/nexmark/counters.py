"""How a summary gets from the workers to the driver on every runner: as Beam counters."""

import apache_beam as beam
from apache_beam.metrics import Metrics, MetricsFilter
from apache_beam.runners.runner import PipelineResult

from sparkbeam.nexmark.result_digest import Summary

_NAMESPACE = "sparkbeam.nexmark"
_RESULTS = "results"
_PART_BITS = 32
_PARTS = {f"digest_{bit}": bit for bit in range(0, 128, _PART_BITS)}
"""Where in the digest each part begins; a counter holds no more than 63 bits."""


class Publish(beam.DoFn):
    """Counts what a summary says."""

    def process(self, summary: Summary) -> None:
        count, digest = summary
        Metrics.counter(_NAMESPACE, _RESULTS).inc(count)
        for name, bit in _PARTS.items():
            part = int(digest, 16) >> bit & (1 << _PART_BITS) - 1
            Metrics.counter(_NAMESPACE, name).inc(part)


def published(result: PipelineResult) -> Summary:
    """The summary that a pipeline with :class:`Publish` had.

    Raises:
        RuntimeError: the runner does not tell it.
    """
    found = result.metrics().query(MetricsFilter().with_namespace(_NAMESPACE))
    # Prism tells no number of a counter that is 0.
    counters = {counter.key.metric.name: counter.result or 0 for counter in found["counters"]}
    if not {_RESULTS, *_PARTS} <= counters.keys():
        raise RuntimeError("The runner tells no counters, and so no results.")
    digest = sum(counters[name] << bit for name, bit in _PARTS.items())
    return Summary(counters[_RESULTS], f"{digest:032x}")
