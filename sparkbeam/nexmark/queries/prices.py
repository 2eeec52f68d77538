"""How means become prices."""

from math import floor


def rounded(price: float) -> int:
    """The nearest whole number, halves up, as Java rounds."""
    return floor(price + 0.5)
