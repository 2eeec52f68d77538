"""Restrictions of splittable DoFns in tests."""

from typing import Any

from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.transforms.core import RestrictionProvider


class Positions(RestrictionProvider):
    """Positions from 0 on.

    Args:
        count: the number of positions of each element; None for the element itself.
    """

    def __init__(self, count: int | None = None) -> None:
        self._count = count

    def initial_restriction(self, element: Any) -> OffsetRange:
        return OffsetRange(0, element if self._count is None else self._count)

    def create_tracker(self, restriction: OffsetRange) -> OffsetRestrictionTracker:
        return OffsetRestrictionTracker(restriction)

    def restriction_size(self, element: Any, restriction: OffsetRange) -> int:
        return int(restriction.size())
