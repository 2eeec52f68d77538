"""Knowledge of types, kept as long as the types exist."""

import weakref
from collections.abc import Callable
from typing import Generic, TypeVar

_Value = TypeVar("_Value")


class ByType(Generic[_Value]):
    """A value for each type, which is found once; it does not keep the types.

    Args:
        find: finds the value of a type, and keeps nothing of it in the value.

    Attributes:
        get: gives the value of the type with an ``id``; None if it is not known.
    """

    def __init__(self, find: Callable[[type], _Value]) -> None:
        self._find = find
        # No weak dictionary: this is asked for each element.
        self._values: dict[int, _Value] = {}
        self._types: dict[int, weakref.ref[type]] = {}
        self.get = self._values.get

    def learn(self, kind: type) -> _Value:
        """Find the value of a type that is not known."""
        number = id(kind)
        value = self._find(kind)

        def forget(_: object) -> None:
            del self._values[number], self._types[number]

        self._types[number] = weakref.ref(kind, forget)
        self._values[number] = value
        return value
