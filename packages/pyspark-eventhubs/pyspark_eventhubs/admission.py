"""Shares of a micro-batch's limit among the partitions."""

from collections.abc import Mapping

PER_PARTITION = 1000
"""Default limit of events per partition and micro-batch."""


def admitted(
    backlog: Mapping[str, int],
    limit: int | None,
    most: Mapping[str, int] | None = None,
    factors: Mapping[str, float] | None = None,
) -> dict[str, int]:
    """Return the number of events to read of each partition.

    The limit is shared in proportion to the backlog. Each partition with events gets at least one,
    so that none starves; the remainder after rounding goes to the largest. A partition with a
    factor gets the factor times the share of the largest other partition, or of one of many equal
    ones, regardless of its backlog.

    Args:
        backlog: the number of waiting events of each partition.
        limit: the total limit; None for no limit. It is exceeded if there are more partitions with
            events.
        factors: the factors of partitions with a reduced share.
    """
    wanted = {
        partition: min(waiting, (most or {}).get(partition, waiting))
        for partition, waiting in backlog.items()
    }
    slow = {name: count for name, count in wanted.items() if (factors or {}).get(name, 1) < 1}
    if not slow:
        return _shared(wanted, limit)
    assert factors is not None
    others = {name: count for name, count in wanted.items() if name not in slow}
    typical = max([_even(limit, len(wanted)), *_shared(others, limit).values()])
    capped = {
        name: min(count, max(1, int(factors[name] * typical))) for name, count in slow.items()
    }
    if limit is None:
        return {**others, **capped}
    taken = _shared(capped, limit * len(slow) // len(wanted))
    return {**_shared(others, limit - sum(taken.values())), **taken}


def _even(limit: int | None, partitions: int) -> int:
    """Return the share of one of many partitions with equal backlog."""
    return PER_PARTITION if limit is None else max(1, limit // partitions)


def _shared(wanted: Mapping[str, int], limit: int | None) -> dict[str, int]:
    total = sum(wanted.values())
    # The limit may be negative here, after minimum shares of one event.
    if limit is None or total <= max(0, limit):
        return dict(wanted)
    share = {
        partition: max(min(1, count), count * limit // total) for partition, count in wanted.items()
    }
    left = limit - sum(share.values())
    for partition in sorted(wanted, key=lambda name: share[name] - wanted[name]):
        if left <= 0:
            break
        more = min(left, wanted[partition] - share[partition])
        share[partition] += more
        left -= more
    return share
