"""Uncompressed pickles of DoFns.

Beam compresses pickles at the highest level and encodes them as text. Without that a DoFn of a few
hundred bytes grows by a fifth, but it is read many times on the driver and in each worker.
"""

import contextlib
import sys
import threading
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

from apache_beam.internal import cloudpickle_pickler, pickler
from apache_beam.internal.cloudpickle import cloudpickle
from apache_beam.transforms import core

_FIRST = b"\x80"
"""Prefix of uncompressed pickles, which no text of Beam has."""

_MOST = 64 << 10
"""Size from which pickles are left to Beam, which compresses them."""

_making = threading.RLock()


def dumps(value: Any) -> bytes:
    """Pickle a value for :func:`loads`; by Beam's pickler if it is large, or pickled by dill."""
    if pickler.is_currently_cloudpickle():
        pickle: bytes = cloudpickle_pickler._dumps(value)
        if len(pickle) <= _MOST:
            return pickle
    return pickler.dumps(value)


def loads(data: bytes) -> Any:
    """Load such a pickle, or one of Beam's."""
    return cloudpickle_pickler._loads(data) if data.startswith(_FIRST) else pickler.loads(data)


def by_value(modules: Iterable[ModuleType]) -> None:
    """Pickle functions and classes of modules by value from now on."""
    known = cloudpickle.list_registry_pickle_by_value()
    for module in modules:
        if module.__name__ not in known and sys.modules.get(module.__name__) is module:
            cloudpickle.register_pickle_by_value(module)


@contextlib.contextmanager
def plain() -> Iterator[None]:
    """Pickle the DoFns in protos in this way, for those that this thread creates meanwhile.

    One thread at a time may do so.
    """
    thread = threading.get_ident()
    info: Any = core.DoFnInfo

    def pickled(fn: Any, args: Any, kwargs: Any) -> Any:
        if threading.get_ident() != thread:
            return beams(fn, args, kwargs)
        return dumps((fn, args, kwargs, None, None))

    with _making:
        beams = info._pickled_do_fn_info
        info._pickled_do_fn_info = staticmethod(pickled)
        try:
            yield
        finally:
            info._pickled_do_fn_info = staticmethod(beams)
