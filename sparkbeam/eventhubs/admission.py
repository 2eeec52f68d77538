"""How much of each partition a micro-batch takes."""

from collections.abc import Mapping

PER_PARTITION = 1000
"""How many events of each partition a micro-batch takes where nothing else is said."""


def admitted(
    backlog: Mapping[str, int],
    limit: int | None,
    most: Mapping[str, int] | None = None,
    factors: Mapping[str, float] | None = None,
) -> dict[str, int]:
    """How many events of each partition to take.

    A limit is shared by what each partition has waiting, and each that has something waiting gets
    something, so that none falls behind for ever; what rounding leaves goes to the largest. Of a
    partition with a factor as much is taken as of the largest other one, or of one of many equal
    ones, times the factor, however much is waiting.

    Args:
        backlog: how many events of each partition are waiting.
        limit: how many to take of all; None for no limit. It is exceeded where there are more
            partitions with events.
        most: how many to take of some partitions at most.
        factors: of the partitions that are to have less than their share.
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
    """What each of many partitions with the same backlog would get."""
    return PER_PARTITION if limit is None else max(1, limit // partitions)


def _shared(wanted: Mapping[str, int], limit: int | None) -> dict[str, int]:
    total = sum(wanted.values())
    # Those that get one event anyway may have taken more than there was.
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
