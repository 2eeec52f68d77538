"""DoFns that go from part to part of a bundle processor without pickles.

Beam hands a DoFn from one of its parts to the next as a pickle, which it makes and reads several
times. For a small task that is most of the work.
"""

import threading
from collections.abc import Callable
from typing import Any

from apache_beam.internal import pickler

from sparkbeam.upstream import pickles


class Handed:
    """Stands for a pickle within this process.

    Args:
        value: what a load of it gives: this very object.
        another: makes one that is its equal; where there is none, a pickle does.
    """

    __slots__ = ("another", "value")

    def __init__(self, value: Any, another: Callable[[], Any] | None = None) -> None:
        self.value = value
        self.another = another


class HandingPickler:
    """In place of Beam's pickler, while the thread that makes it makes a bundle processor."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()

    def dumps(self, value: Any) -> Any:
        """A value as it goes to another part."""
        if threading.get_ident() != self._thread:
            return pickler.dumps(value)
        return Handed(value)

    def loads(self, data: Any) -> Any:
        """The value of a pickle, or of what stands for one."""
        return data.value if isinstance(data, Handed) else pickles.loads(data)


def copied(data: Any) -> Any:
    """The value of a pickle, or of what stands for one, as an object of its own."""
    if not isinstance(data, Handed):
        return pickles.loads(data)
    return pickler.loads(pickler.dumps(data.value)) if data.another is None else data.another()
