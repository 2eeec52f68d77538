"""Cached signatures of DoFn methods.

Beam inspects the signature of each DoFn method several times when it is applied, translated and set
up, and reads its source. For a small pipeline this takes a fifth of the time.
"""

import functools
import inspect
from collections.abc import Callable
from types import (
    ClassMethodDescriptorType,
    CodeType,
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

_BEAMS = {"_argspec_fn", "_type_hints"}
"""Attributes that Beam sets on functions without effect on their arguments."""

_Arguments = tuple[list[str], list[Any]]

_Names = WeakKeyDictionary[FunctionType, tuple[CodeType, list[str]]]
"""Argument names of functions, with their code objects."""


def remembering(find: Callable[[Any], _Arguments]) -> Callable[[Any], _Arguments]:
    """Return a function that caches the arguments of functions.

    It caches methods of Beam and sparkbeam, and plain functions, by themselves or as methods, for
    their lifetime.

    Args:
        find: returns the names of arguments and the values of defaults.
    """
    known: dict[FunctionType, _Arguments] = {}
    alone: _Names = WeakKeyDictionary()
    bound: _Names = WeakKeyDictionary()

    def names(plain: _Names, function: FunctionType, asked: Any) -> list[str]:
        # Not the defaults: one of a timer's method knows the method, which would stay for ever.
        code = function.__code__
        before = plain.get(function)
        if before is None or before[0] is not code:
            before = plain[function] = code, find(asked)[0]
        return list(before[1])

    @functools.wraps(find)
    def found(function: Any) -> _Arguments:
        if type(function) is MethodType and type(of_class := function.__func__) is FunctionType:
            before = known.get(of_class)
            if before is None and _is_theirs(of_class):
                before = known[of_class] = find(function)
            if before is not None:
                return list(before[0]), list(before[1])
            if _is_plain(of_class):
                there = names(bound, of_class, function)
                # One of the object itself, too, is none of the method's.
                return there, list((of_class.__defaults__ or ())[-len(there) :] if there else ())
        elif _is_plain(function):
            return names(alone, function, function), list(function.__defaults__ or ())
        return find(function)

    return found


def _is_plain(function: Any) -> bool:
    """Return whether an object is a function whose signature has not been overridden."""
    return type(function) is FunctionType and vars(function).keys() <= _BEAMS


def _is_theirs(function: FunctionType) -> bool:
    """Return whether a function belongs to a class that lives as long as the process."""
    return _is_written_by_them(function) and "<locals>" not in function.__qualname__


def _is_written_by_them(function: FunctionType) -> bool:
    return str(function.__module__).startswith(_THEIRS)


def remembering_bodies(read: Callable[[Any], str]) -> Callable[[Any], str]:
    """Return a function that caches the source of function bodies by code object.

    Args:
        read: reads the source.
    """
    known = WeakKeyDictionary[CodeType, tuple[str, str]]()

    @functools.wraps(read)
    def found(function: Any) -> str:
        plain = function.__func__ if type(function) is MethodType else function
        if type(plain) is not FunctionType or hasattr(plain, "__wrapped__"):
            return read(function)
        code = plain.__code__
        before = known.get(code)
        # Code of two files may be equal.
        if before is None or before[0] != code.co_filename:
            before = known[code] = code.co_filename, read(function)
        return before[1]

    return found


def overlooking(find: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function that finds the state and timers of a DoFn without inspecting all methods.

    Methods of Beam and sparkbeam that use neither are cached.

    Args:
        find: inspects all listed methods of an object.
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
        names = [name for name in known[kind] if isinstance(getattr(dofn, name, None), MethodType)]
        return find(_Face(dofn, names)) if names else (set(), set())

    return found


class _Face:
    """A DoFn that lists only some of its attributes, but has them all."""

    def __init__(self, dofn: Any, names: list[str]) -> None:
        self._dofn = dofn
        self._names = names

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return type(self._dofn)

    def __dir__(self) -> list[str]:
        return self._names

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dofn, name)

    def __repr__(self) -> str:
        return repr(self._dofn)


_INSPECT = "_inspect_"
"""Prefix of methods that list the arguments of another method."""


_NEVER_METHODS = (
    staticmethod,
    ClassMethodDescriptorType,
    GetSetDescriptorType,
    MethodDescriptorType,
    WrapperDescriptorType,
)


def _takes_nothing(kind: type, name: str) -> bool:
    """Return whether a name is not a method, or a known one that takes only elements."""
    found = inspect.getattr_static(kind, name, None)
    if isinstance(found, _NEVER_METHODS):
        return True
    if not hasattr(found, "__get__"):
        return True
    if type(found) is property and type(found.fget) is FunctionType:
        return _is_written_by_them(found.fget)  # It tells what the others are.
    function = found.__func__ if isinstance(found, classmethod) else found
    return (
        type(function) is FunctionType
        and _is_written_by_them(function)
        and vars(function).keys().isdisjoint(_OTHER_SIGNATURE)
        and not hasattr(kind, _INSPECT + name)
        and not any(isinstance(value, core._DoFnParam) for value in function.__defaults__ or ())
    )


_OTHER_SIGNATURE = {"__wrapped__", "__signature__"}
"""Attributes of functions whose signature differs from that of their code."""
