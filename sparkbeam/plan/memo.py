"""Cache of results while a pipeline is translated or explained.

The results may hold the user's objects, and large ones, so they are dropped at its end.
"""

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar

_P = ParamSpec("_P")
_Result = TypeVar("_Result")

_memo: ContextVar[dict[Any, Any] | None] = ContextVar("_memo", default=None)


@contextmanager
def memo() -> Iterator[None]:
    """Have :func:`memoized` functions remember results within the context.

    A nested context is the same one.
    """
    if _memo.get() is not None:
        yield
        return
    known: dict[Any, Any] = {}
    token = _memo.set(known)
    try:
        yield
    finally:
        _memo.reset(token)
        known.clear()


def memoized(function: Callable[_P, _Result]) -> Callable[_P, _Result]:
    """Return a function that is called once for equal arguments within a :func:`memo`.

    Outside of a memo it is called each time. Its result is shared: it must not be changed.
    """

    @functools.wraps(function)
    def found(*args: _P.args, **kwargs: _P.kwargs) -> _Result:
        known = _memo.get()
        if known is None:
            return function(*args, **kwargs)
        asked = function, args, *kwargs.items()
        if asked not in known:
            known[asked] = function(*args, **kwargs)
        result: _Result = known[asked]
        return result

    return found


def remember(function: Callable[..., _Result], result: _Result, *args: Any) -> None:
    """Provide the known result of a memoized function.

    Args:
        function: one that :func:`memoized` has returned.
        result: its result, which must not be changed.
    """
    known = _memo.get()
    if known is not None:
        known[inspect.unwrap(function), args] = result
