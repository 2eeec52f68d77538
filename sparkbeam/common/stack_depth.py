"""Recursion limit and thread stack for the steps of a stage.

The steps of a stage call each other, so the last one runs below a few frames for each step before
it. Beam's own runners have compiled code there, which Python does not count; here the limit and the
thread's stack grow with the number of steps.
"""

import contextlib
import sys
import threading
from collections.abc import Iterator

_FRAMES_PER_STEP = 8
_OWN_FRAMES = 100
_BYTES_PER_FRAME = 8 << 10
_MAIN_STACK_BYTES = 8 << 20
_USER_FRAMES = sys.getrecursionlimit()
"""Limit that user code may expect; read before it is raised."""

_starting = threading.Lock()


def frames_for(steps: int) -> int:
    """Return the recursion limit for a number of fused steps."""
    return _USER_FRAMES + _OWN_FRAMES + _FRAMES_PER_STEP * steps


def allow(steps: int) -> None:
    """Raise the recursion limit for a number of fused steps; never lower it."""
    sys.setrecursionlimit(max(sys.getrecursionlimit(), frames_for(steps)))


@contextlib.contextmanager
def allowed(steps: int) -> Iterator[None]:
    """Raise the recursion limit temporarily, for recursion over a pipeline's steps."""
    before = sys.getrecursionlimit()
    allow(steps)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def start(steps: int, thread: threading.Thread) -> None:
    """Start a thread with enough stack for a number of fused steps."""
    allow(steps)
    # Each deeper call may need the same amount.
    size = max(_MAIN_STACK_BYTES, _BYTES_PER_FRAME * frames_for(steps) >> 12 << 12)
    with _starting:
        before = threading.stack_size(size)
        try:
            thread.start()
        finally:
            threading.stack_size(before)
