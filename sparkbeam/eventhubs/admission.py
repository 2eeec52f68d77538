"""How much of each partition a micro-batch takes."""

from collections.abc import Mapping


def admitted(
    backlog: Mapping[str, int], limit: int | None, most: Mapping[str, int] | None = None
) -> dict[str, int]:
    """How many events of each partition to take.

    A limit is shared by what each partition has waiting, and each that has something waiting gets
    something, so that none falls behind for ever; what rounding leaves goes to the largest.

    Args:
        backlog: how many events of each partition are waiting.
        limit: how many to take of all; None for no limit. It is exceeded where there are more
            partitions with events.
        most: how many to take of some partitions at most.
    """
    wanted = {
        partition: min(waiting, (most or {}).get(partition, waiting))
        for partition, waiting in backlog.items()
    }
    total = sum(wanted.values())
    if limit is None or total <= limit:
        return wanted
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
