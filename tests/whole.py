"""The option ``--whole`` where modules are imported, and in other processes."""

import os

from hypothesis import settings

WHOLE = "SPARKBEAM_WHOLE"
_TIMES = 10


def is_whole() -> bool:
    """Return whether all cases are to run, and not a part of them."""
    return WHOLE in os.environ


def examples(count: int) -> settings:
    """Settings with a number of examples, ten times as many with ``--whole``."""
    return settings(max_examples=count * _TIMES if is_whole() else count)
