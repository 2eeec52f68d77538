"""Transfer of DoFns between the parts of a bundle processor without pickling.

Beam passes a DoFn between its parts as a pickle, which it writes and reads several times. For a
small task this takes most of the time.
"""

import threading
from collections.abc import Callable
from typing import Any

from apache_beam.internal import pickler


class InProcessPickle:
    """A stand-in for a pickle within this process.

    Args:
        another: creates an equal object; a pickle is used if None.
    """

    __slots__ = ("another", "value")

    def __init__(self, value: Any, another: Callable[[], Any] | None = None) -> None:
        self.value = value
        self.another = another


class HandingPickler:
    """Replacement of Beam's pickler in the thread that creates a bundle processor."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()

    def dumps(self, value: Any) -> Any:
        """Return the transferable form of a value."""
        if threading.get_ident() != self._thread:
            return pickler.dumps(value)
        return InProcessPickle(value)

    def loads(self, data: Any) -> Any:
        """Return the value of a pickle or of its stand-in."""
        return data.value if isinstance(data, InProcessPickle) else pickler.loads(data)


def copied(data: Any) -> Any:
    """Return the value of a pickle or of its stand-in, as a new object."""
    if not isinstance(data, InProcessPickle):
        return pickler.loads(data)
    return pickler.loads(pickler.dumps(data.value)) if data.another is None else data.another()
