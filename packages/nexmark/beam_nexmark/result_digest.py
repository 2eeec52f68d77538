"""Comparable summaries of results: their number, and an order-independent digest.

A result has a canonical text, and that text a hash of 128 bits. The digest is the sum of the hashes
mod 2^128, so it can be combined in any order, and duplicates count. A summary reaches the driver by
Beam counters, on any runner.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.metrics import Metrics, MetricsFilter
from apache_beam.runners.runner import PipelineResult
from apache_beam.transforms.window import GlobalWindows

from beam_nexmark.queries.query import once

_MODULUS = 1 << 128

_NAMESPACE = "beam_nexmark"
_RESULTS = "results"
_PART_BITS = 32
_PARTS = {f"digest_{bit}": bit for bit in range(0, 128, _PART_BITS)}
"""Bit offsets of the parts of a digest; a counter holds 63 bits."""


def _encoding() -> Callable[[Any], str]:
    """Return a JSON encoder without the setup that ``JSONEncoder.encode`` repeats for each text."""
    encoder = json.JSONEncoder(separators=(",", ":"), check_circular=False)
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:  # Another Python than CPython.
        return encoder.encode
    text = json.encoder.encode_basestring_ascii
    chunks = make(None, encoder.default, text, None, ":", ",", False, False, True)
    return lambda result: "".join(chunks(result, 0))


_encode = _encoding()


class Summary(NamedTuple):
    """The number of results and their digest, in hexadecimal."""

    results: int
    digest: str


class Difference(NamedTuple):
    """Missing and superfluous results, with duplicates."""

    missing: Sequence[str]
    unexpected: Sequence[str]

    def __bool__(self) -> bool:
        return bool(self.missing or self.unexpected)


def canonical(result: Any) -> str:
    """Return the text of a result: its fields as JSON, without names."""
    return _encode(result)


class SummarizeFn(beam.CombineFn):
    """Combiner of results into a :class:`Summary`.

    Args:
        weigh: see :class:`~beam_nexmark.queries.Query`.
    """

    def __init__(self, weigh: Callable[[Any], tuple[Any, int]] = once) -> None:
        super().__init__()
        self._weigh = weigh

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add_input(self, accumulator: tuple[int, int], element: Any) -> tuple[int, int]:
        return self.add_inputs(accumulator, [element])

    def add_inputs(self, accumulator: tuple[int, int], elements: Iterable[Any]) -> tuple[int, int]:
        count, total = accumulator
        for result, weight in map(self._weigh, elements):
            digest = blake2b(canonical(result).encode(), digest_size=16).digest()
            count += weight
            total += weight * int.from_bytes(digest)
        return count, total % _MODULUS

    def merge_accumulators(self, accumulators: Iterable[tuple[int, int]]) -> tuple[int, int]:
        counts, totals = zip(*accumulators, strict=True)
        return sum(counts), sum(totals) % _MODULUS

    def extract_output(self, accumulator: tuple[int, int]) -> Summary:
        count, total = accumulator
        return Summary(count, f"{total:032x}")


class Summarize(beam.PTransform[beam.PCollection[Any], beam.PCollection[Any]]):
    """Combination of a query's results, in any windows, into one :class:`Summary`."""

    def __init__(self, weigh: Callable[[Any], tuple[Any, int]] = once) -> None:
        super().__init__()
        self._weigh = weigh

    def expand(self, results: beam.PCollection[Any]) -> beam.PCollection[Any]:
        return (
            results
            | beam.WindowInto(GlobalWindows())
            | beam.CombineGlobally(SummarizeFn(self._weigh))
        )


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


def summary(results: Iterable[Any], weigh: Callable[[Any], tuple[Any, int]] = once) -> Summary:
    """Return the summary of a collection of results."""
    combine = SummarizeFn(weigh)
    return combine.extract_output(combine.add_inputs(combine.create_accumulator(), results))


def difference(
    expected: Iterable[Any],
    actual: Iterable[Any],
    weigh: Callable[[Any], tuple[Any, int]] = once,
    limit: int = 5,
) -> Difference:
    """Return the first results, in the order of their texts, that only one side has."""
    wanted, found = _counted(expected, weigh), _counted(actual, weigh)
    return Difference(
        missing=sorted((wanted - found).elements())[:limit],
        unexpected=sorted((found - wanted).elements())[:limit],
    )


def _counted(results: Iterable[Any], weigh: Callable[[Any], tuple[Any, int]]) -> Counter[str]:
    counter: Counter[str] = Counter()
    for element in results:
        result, weight = weigh(element)
        counter[canonical(result)] += weight
    return counter
