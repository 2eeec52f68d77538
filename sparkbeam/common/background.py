"""Threads beside the user's code."""

import threading
from collections.abc import Callable
from contextvars import copy_context


def background_thread(target: Callable[[], object], name: str) -> threading.Thread:
    """Return a daemon thread in the context of its maker; it is not started.

    In a notebook that context holds the cell, so what the thread prints is the output of the cell.
    Without it ipykernel follows identifiers of threads from child to parent. The system gives those
    of ended threads to new ones, so that they may lead in a circle, which the kernel never leaves
    (https://github.com/ipython/ipykernel/issues/1269).

    Args:
        target: is called without arguments.
    """
    return threading.Thread(target=copy_context().run, args=(target,), name=name, daemon=True)
