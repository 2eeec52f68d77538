"""What Beam need not do again for each step when it makes a bundle processor.

Beam hands a DoFn from one of its parts to the next as a pickle, which it makes and reads several
times; and it looks several times at the signature of each method of each DoFn. For a small task
that is most of the work.
"""

import threading
from collections.abc import Callable
from typing import Any

from apache_beam.internal import pickler

_THEIRS = ("apache_beam.", "sparkbeam.")


class Handed:
    """Stands for a pickle within this process.

    Args:
        value: what a load of it gives: this very object.
    """

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class HandingPickler:
    """In place of Beam's pickler, while the thread that makes it makes a bundle processor."""

    def __init__(self) -> None:
        self._threads = {threading.get_ident()}

    def join(self) -> None:
        """The thread that calls this makes the bundle processor too."""
        self._threads.add(threading.get_ident())

    def dumps(self, value: Any) -> Any:
        """A value as it goes to another part."""
        if threading.get_ident() not in self._threads:
            return pickler.dumps(value)
        return Handed(value)

    def loads(self, data: Any) -> Any:
        """The value of a pickle, or of what stands for one."""
        return data.value if isinstance(data, Handed) else pickler.loads(data)


_Arguments = tuple[list[str], list[Any]]


def remembering(find: Callable[[Any], _Arguments]) -> Callable[[Any], _Arguments]:
    """A function that tells the arguments of another one, and remembers them of Beam's and ours.

    Args:
        find: gives the names of arguments and the values of defaults.
    """
    known: dict[Any, _Arguments] = {}

    def found(function: Any) -> _Arguments:
        of_class = getattr(function, "__func__", None)
        if not _is_theirs(of_class):
            return find(function)
        if of_class not in known:
            known[of_class] = find(function)
        names, defaults = known[of_class]
        return list(names), list(defaults)

    return found


def _is_theirs(function: Any) -> bool:
    """Whether a function is of a class that is there as long as the process."""
    module = str(getattr(function, "__module__", ""))
    return module.startswith(_THEIRS) and "<locals>" not in getattr(function, "__qualname__", "")
