"""Results that are found once while a pipeline is translated or explained.

They may hold what is the user's, and large things, so they are forgotten with its end.
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
    """While it lasts, :func:`memoized` functions remember; one within another is the same one."""
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
    """A function that is called once for equal arguments within a :func:`memo`, else each time.

    Its result is everybody's: nobody may change it.

    Args:
        function: of arguments that have a hash.
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
    """Give the result of a memoized function that is already there.

    Args:
        function: one that :func:`memoized` has returned.
        result: what it would return, which nobody may change.
        args: its arguments.
    """
    known = _memo.get()
    if known is not None:
        known[inspect.unwrap(function), args] = result
