"""Methods of DoFns that Beam need not look at again.

Beam looks at the signature of each method of a DoFn when it is applied, several times, when it is
translated and when it is set up. For a small pipeline that is a fifth of the work.
"""

import functools
import inspect
import operator
from collections.abc import Callable
from types import (
    ClassMethodDescriptorType,
    FunctionType,
    GetSetDescriptorType,
    MethodDescriptorType,
    MethodType,
    WrapperDescriptorType,
)
from typing import Any
from weakref import WeakKeyDictionary

from apache_beam.transforms import core

_THEIRS = ("apache_beam.", "sparkbeam.")

_Arguments = tuple[list[str], list[Any]]


def remembering(find: Callable[[Any], _Arguments]) -> Callable[[Any], _Arguments]:
    """A function that tells the arguments of another one, and remembers them.

    It does so for methods of Beam's and ours, and for plain functions as long as they are there.

    Args:
        find: gives the names of arguments and the values of defaults.
    """
    known: dict[Any, _Arguments] = {}
    plain: WeakKeyDictionary[FunctionType, tuple[tuple[Any, ...], list[str]]] = WeakKeyDictionary()

    @functools.wraps(find)
    def found(function: Any) -> _Arguments:
        if type(function) is FunctionType and not vars(function):
            made_of = function.__code__, function.__defaults__, function.__kwdefaults__
            before = plain.get(function)
            if before is None or any(map(operator.is_not, before[0], made_of)):
                before = plain[function] = made_of, find(function)[0]
            return list(before[1]), list(function.__defaults__ or ())
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


def overlooking(find: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function that looks at a DoFn for state and timers, but not at each method.

    Methods of Beam's and ours that take neither are remembered.

    Args:
        find: looks at all methods that an object tells.
    """
    known: WeakKeyDictionary[type, tuple[str, ...]] = WeakKeyDictionary()

    @functools.wraps(find)
    def found(dofn: Any) -> Any:
        kind, own = type(dofn), getattr(dofn, "__dict__", None)
        if own is None or getattr(kind, "__dir__", None) is not object.__dir__:
            return find(dofn)
        if kind not in known:
            known[kind] = tuple(name for name in dir(kind) if not _takes_nothing(kind, name))
        for name, value in own.items():
            if isinstance(value, MethodType) or name.startswith(_INSPECT):
                return find(dofn)
        return find(_Face(dofn, known[kind]))

    return found


class _Face:
    """A DoFn that tells some of its attributes alone, but has them all."""

    def __init__(self, dofn: Any, names: tuple[str, ...]) -> None:
        self._dofn = dofn
        self._names = names

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return type(self._dofn)

    def __dir__(self) -> tuple[str, ...]:
        return self._names

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dofn, name)

    def __repr__(self) -> str:
        return repr(self._dofn)


_INSPECT = "_inspect_"
"""What begins so tells the arguments of a method in its place."""


_NEVER_METHODS = (
    staticmethod,
    ClassMethodDescriptorType,
    GetSetDescriptorType,
    MethodDescriptorType,
    WrapperDescriptorType,
)


def _takes_nothing(kind: type, name: str) -> bool:
    """Whether a name is no method, or one of Beam's or ours that takes nothing but elements."""
    found = inspect.getattr_static(kind, name, None)
    if isinstance(found, _NEVER_METHODS):
        return True
    if not hasattr(found, "__get__"):
        return True
    function = found.__func__ if isinstance(found, classmethod) else found
    return (
        type(function) is FunctionType
        and _is_theirs(function)
        and not hasattr(function, "__wrapped__")
        and not hasattr(kind, _INSPECT + name)
        and not any(isinstance(value, core._DoFnParam) for value in function.__defaults__ or ())
    )
