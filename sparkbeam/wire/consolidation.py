"""Merging of metrics of several bundles, for every kind of metric.

Beam's own consolidation does not merge gauges, string sets and bounded tries.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import reduce
from typing import TypeAlias

from apache_beam.metrics import monitoring_infos as infos
from apache_beam.portability.api import metrics_pb2

Info: TypeAlias = metrics_pb2.MonitoringInfo
Infos = list[Info]


def consolidate(metrics: Iterable[Info]) -> Infos:
    """Merge metrics by name and labels; keep the last one of kinds that Beam cannot merge."""
    grouped: dict[frozenset[object], Infos] = defaultdict(list)
    for metric in metrics:
        grouped[infos.to_key(metric)].append(metric)
    return [reduce(_merge, same) for same in grouped.values()]


def _merge(first: Info, second: Info) -> Info:
    combine = _COMBINERS.get(first.type, lambda _, later: later)
    merged = Info()
    merged.CopyFrom(first)
    merged.payload = combine(first, second).payload
    return merged


def _sum(first: Info, second: Info) -> Info:
    return Info(payload=infos.sum_payload_combiner(first.payload, second.payload))


def _distribution(first: Info, second: Info) -> Info:
    return Info(payload=infos.distribution_payload_combiner(first.payload, second.payload))


def _latest(first: Info, second: Info) -> Info:
    return max(first, second, key=lambda metric: infos.extract_gauge_value(metric)[0])


def _string_set(first: Info, second: Info) -> Info:
    union = infos.extract_string_set_value(first) | infos.extract_string_set_value(second)
    return infos.user_set_string("", "", union)


def _bounded_trie(first: Info, second: Info) -> Info:
    one, other = map(infos.extract_bounded_trie_value, (first, second))
    return infos.user_bounded_trie("", "", one.combine(other))


def _histogram(first: Info, second: Info) -> Info:
    one, other = map(infos.extract_histogram_value, (first, second))
    return infos.user_histogram("", "", one.combine(other))


_COMBINERS: dict[str, Callable[[Info, Info], Info]] = {
    infos.SUM_INT64_TYPE: _sum,
    infos.DISTRIBUTION_INT64_TYPE: _distribution,
    infos.LATEST_INT64_TYPE: _latest,
    infos.STRING_SET_TYPE: _string_set,
    infos.BOUNDED_TRIE_TYPE: _bounded_trie,
    infos.HISTOGRAM_TYPE: _histogram,
}


def repeatable(metrics: Iterable[Info]) -> Infos:
    """Return the metrics that are equal in each attempt of a task, in a fixed order.

    Times and byte sizes are omitted; sizes are taken of a random sample of the elements. The user's
    gauges are included, though they contain the time of day.
    """
    kept = [metric for metric in metrics if metric.urn not in _VARYING]
    return sorted(kept, key=lambda metric: metric.SerializeToString(deterministic=True))


_VARYING = frozenset(
    [
        infos.SAMPLED_BYTE_SIZE_URN,
        infos.START_BUNDLE_MSECS_URN,
        infos.PROCESS_BUNDLE_MSECS_URN,
        infos.FINISH_BUNDLE_MSECS_URN,
        infos.TOTAL_MSECS_URN,
    ]
)
