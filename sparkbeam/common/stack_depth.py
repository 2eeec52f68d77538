"""The Python stack that a stage needs beyond what the user's code may use of it.

The steps of a stage call each other, so that the last one runs below a few frames for each of
those before it. Beam's own runners have compiled code there, which Python does not count; here
the limit is raised by what the steps take, and the thread gets as much more of a stack.
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
"""What the user's code may expect; read before anybody has raised it."""

_starting = threading.Lock()


def frames_for(steps: int) -> int:
    """The recursion limit for so many fused steps."""
    return _USER_FRAMES + _OWN_FRAMES + _FRAMES_PER_STEP * steps


def allow(steps: int) -> None:
    """Raises the recursion limit for so many fused steps; never lowers it."""
    sys.setrecursionlimit(max(sys.getrecursionlimit(), frames_for(steps)))


@contextlib.contextmanager
def allowed(steps: int) -> Iterator[None]:
    """Likewise, for a while; for what goes down a pipeline step by step, in plain Python."""
    before = sys.getrecursionlimit()
    allow(steps)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def start(steps: int, thread: threading.Thread) -> None:
    """Starts a thread with the stack for so many fused steps."""
    allow(steps)
    with _starting:
        before = threading.stack_size(_stack_bytes(steps))
        try:
            thread.start()
        finally:
            threading.stack_size(before)


def _stack_bytes(steps: int) -> int:
    """In proportion, as one deeper call may take as much of the stack as any other."""
    return max(_MAIN_STACK_BYTES, _BYTES_PER_FRAME * frames_for(steps) >> 12 << 12)
