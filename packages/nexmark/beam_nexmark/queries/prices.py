"""Rounding of means to prices."""

from math import floor


def rounded(price: float) -> int:
    """Return the nearest integer, halves up, like Java."""
    return floor(price + 0.5)
