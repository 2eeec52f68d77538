"""Signatures that Beam inspects once.

Beam inspects each method of a DoFn when it is applied, several times when it is translated, and
again when a worker sets it up. Nearly all of these are methods of Beam's own base class.
"""

import functools
import weakref
from collections.abc import Callable
from contextlib import suppress
from types import FunctionType, MethodType
from typing import Any

from sparkbeam.upstream.option_views import OF_THE_PROCESS

_Arguments = tuple[list[str], list[Any]]

_Specs = tuple[set[Any], set[Any]]


def remembering(
    inspect: Callable[[Any], _Arguments], is_active: Callable[[], bool]
) -> Callable[[Any], _Arguments]:
    """Return a function that remembers the arguments of functions of Beam and sparkbeam.

    It keeps nothing of users' functions, and of none that is defined within another one.

    Args:
        inspect: Beam's function, which returns the names of arguments and their default values.
        is_active: returns False to have Beam's function called each time.
    """
    known: dict[tuple[FunctionType, bool], _Arguments] = {}

    @functools.wraps(inspect)
    def found(function: Any) -> _Arguments:
        is_bound = type(function) is MethodType
        plain = function.__func__ if is_bound else function
        if type(plain) is not FunctionType or not _is_of_the_process(plain) or not is_active():
            return inspect(function)
        arguments = known.get((plain, is_bound))
        if arguments is None:
            arguments = known[plain, is_bound] = inspect(function)
        names, defaults = arguments
        return list(names), list(defaults)

    return found


def remembering_stateless(
    inspect: Callable[[Any], _Specs], is_active: Callable[[], bool]
) -> Callable[[Any], _Specs]:
    """Return a function that remembers DoFns without state and timers as long as they live.

    Args:
        inspect: Beam's function, which returns the specifications of states and of timers.
        is_active: returns False to have Beam's function called each time.
    """
    known: dict[int, weakref.ref[Any]] = {}

    @functools.wraps(inspect)
    def found(dofn: Any) -> _Specs:
        if not is_active():
            return inspect(dofn)
        identity = id(dofn)
        reference = known.get(identity)
        if reference is not None and reference() is dofn:
            return set(), set()
        specs = inspect(dofn)
        if not any(specs):
            with suppress(TypeError):  # Some objects have no weak references.
                known[identity] = weakref.ref(dofn, lambda _: known.pop(identity, None))
        return specs

    return found


def _is_of_the_process(function: FunctionType) -> bool:
    return (
        str(function.__module__).startswith(OF_THE_PROCESS)
        and "<locals>" not in function.__qualname__
        and "__wrapped__" not in vars(function)
    )
