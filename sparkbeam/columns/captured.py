"""Captured values of a function, and guards that detect changes to them.

Globals, closure variables, defaults and attributes of ``self`` are resolved when the function is
compiled. Plain, immutable data becomes a constant; functions, classes, modules and objects are
followed further; sets, lists and dicts contribute their contents.

Python would look a name up again for each element. Therefore each lookup is kept as a *guard*, and
a block is evaluated over columns only if all guards still find the same objects. A variable that
changes while the worker runs costs speed, never correctness. Within a block nothing can change it,
as the function does not run and the compiled code assigns nothing. A global that the function's own
module assigns from within a function is not captured at all, as it is expected to change.
"""

import dis
import enum
import functools
import operator
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from sparkbeam.columns.reasons import NotCompiled

_MISSING = object()
_BUILTINS = operator.attrgetter("__builtins__")
_DEEPEST = 4
_SETS = frozenset([dis.opmap["STORE_GLOBAL"], dis.opmap["DELETE_GLOBAL"]])


@dataclass(frozen=True)
class Guard:
    """A lookup and the object that it found.

    Attributes:
        look: repeats the lookup; raises any exception if nothing is found.
        name: the name of the lookup, for reasons.
    """

    look: Callable[[], Any]
    found: Any
    name: str

    def holds(self) -> bool:
        """Return whether the lookup still finds the same object."""
        try:
            return self.look() is self.found
        except Exception:
            return False


class CapturedEnvironment:
    """Lookups of one compilation, with their guards.

    Args:
        is_open: whether values that may differ in another process become unknown.

    Attributes:
        is_told_apart: whether a value was found that may differ in another process.
        guards: the guards of all lookups.
    """

    def __init__(self, *, is_open: bool = False) -> None:
        self.is_open = is_open
        self.is_told_apart = False
        self.guards: list[Guard] = []

    def global_of(self, function: types.FunctionType, name: str) -> Any:
        """Return a global variable or a builtin, as seen by a function.

        Raises:
            NotCompiled: it does not exist or is expected to change.
        """
        space = function.__globals__
        if name in space:
            if name in _set_globals(space):
                raise NotCompiled(f"the global variable {name} is set by a function")
            return self._guarded(functools.partial(space.__getitem__, name), name)
        self._guard(functools.partial(space.get, name, _MISSING), _MISSING, name)
        builtins = _BUILTINS(function)
        if name not in builtins:
            raise NotCompiled(f"{name} is not defined")
        return self._guarded(functools.partial(builtins.__getitem__, name), name)

    def free_variable(self, function: types.FunctionType, name: str) -> Any:
        """Return a closure variable of a function."""
        names = function.__code__.co_freevars
        if name not in names or function.__closure__ is None:
            raise NotCompiled(f"it shares its variable {name} with another function")
        cell = function.__closure__[names.index(name)]
        return self._guarded(lambda: cell.cell_contents, name)

    def code_of(self, function: types.FunctionType) -> types.CodeType:
        """Return the code of a function; code and defaults are guarded, as they can be replaced."""
        for name in ("__code__", "__defaults__", "__kwdefaults__"):
            self._guarded(functools.partial(getattr, function, name), function.__name__)
        by_name = function.__kwdefaults__ or {}
        for name in by_name:
            self._guarded(functools.partial(by_name.__getitem__, name), name)
        return function.__code__

    def attribute(self, owner: Any, name: str) -> Any:
        """Return an attribute of a module or of an object with default attribute lookup.

        Raises:
            NotCompiled: the lookup would run code, or finds nothing.
        """
        if isinstance(owner, types.ModuleType):
            return self._guarded(functools.partial(vars(owner).__getitem__, name), name)
        if isinstance(owner, type):
            return self._class_attribute(owner, name)
        kind = type(owner)
        if isinstance(owner, enum.Enum) and _of_class(kind, name) is vars(enum.Enum).get(
            name, owner
        ):
            return self._guarded(functools.partial(getattr, owner, name), name)
        if _of_class(kind, "__getattribute__") is not vars(object)["__getattribute__"]:
            raise NotCompiled(f"it reads .{name} of an object with custom attribute access")
        of_class = _of_class(kind, name)
        if any(hasattr(type(of_class), name) for name in ("__set__", "__delete__")):
            raise NotCompiled(f"it reads .{name}, which is a property")
        held = getattr(owner, "__dict__", {})
        if name in held:
            return self._guarded(lambda: vars(owner)[name], name)
        if of_class is _MISSING:
            raise NotCompiled(f"it reads .{name}, which does not exist")
        if held or hasattr(owner, "__dict__"):
            self._guard(lambda: vars(owner).get(name, _MISSING), _MISSING, name)
        if isinstance(of_class, types.FunctionType):
            self._guard(functools.partial(getattr, kind, name), of_class, name)
            return types.MethodType(of_class, owner)
        if hasattr(type(of_class), "__get__"):
            raise NotCompiled(f"it reads .{name}, which is computed")
        return self._guarded(functools.partial(getattr, kind, name), name)

    def contents_of(self, container: set[Any] | list[Any] | dict[Any, Any]) -> tuple[Any, ...]:
        """Return the contents of a set, list or dict, guarded against changes."""
        items = tuple(container)

        def has_these() -> bool:
            return len(container) == len(items) and all(map(operator.is_, container, items))

        self._guard(has_these, True, f"a {type(container).__name__}")
        return items

    def of_class(self, kind: type, name: str) -> Any:
        """Return the unbound attribute of a class or its bases."""
        return self._guarded(functools.partial(_of_class, kind, name), name)

    def _class_attribute(self, owner: type, name: str) -> Any:
        if type(owner) is enum.EnumType and name in owner.__members__:
            return self._guarded(functools.partial(getattr, owner, name), name)
        found = _of_class(owner, name)
        is_function = isinstance(found, types.FunctionType | staticmethod)
        if type(owner) is not type or found is _MISSING:
            raise NotCompiled(f"it reads .{name} of a class")
        if hasattr(type(found), "__get__") and not is_function:
            raise NotCompiled(f"it reads .{name}, which is computed")
        return self._guarded(functools.partial(getattr, owner, name), name)

    def _guarded(self, look: Callable[[], Any], name: str) -> Any:
        try:
            found = look()
        except Exception:
            raise NotCompiled(f"{name} has no value yet") from None
        self._guard(look, found, name)
        return found

    def _guard(self, look: Callable[[], Any], found: Any, name: str) -> None:
        self.guards.append(Guard(look, found, name))


def is_of_process(owner: Any, name: str) -> bool:
    """Return whether each process resolves a name itself, as the value is not serialized.

    Args:
        owner: the module, class or instance with the attribute, or the function that uses a global,
            a closure variable or a default.
        name: the name of the attribute or variable.
    """
    if isinstance(owner, types.FunctionType):
        is_importable = "<" not in owner.__qualname__
        return owner.__module__ != _MAIN and (is_importable or _is_global(owner, name))
    if isinstance(owner, types.ModuleType):
        return owner.__name__ != _MAIN
    if isinstance(owner, type):
        return owner.__module__ != _MAIN
    return name not in getattr(owner, "__dict__", {}) and is_of_process(type(owner), name)


def _is_global(function: types.FunctionType, name: str) -> bool:
    """Return whether a name is a global variable of the module that a function belongs to.

    A function that is serialized with its globals has some of its own.
    """
    module = sys.modules.get(function.__module__)
    return module is not None and vars(module) is function.__globals__ and name in vars(module)


def is_defined(value: Any, name: str) -> bool:
    """Return whether a value is the same in all processes.

    This holds for modules, enum members, and functions and classes that are importable by that
    name.
    """
    if isinstance(value, types.ModuleType | enum.Enum):
        return True
    return isinstance(value, _DEFINED) and getattr(value, "__name__", None) == name


_MAIN = "__main__"
_DEFINED = (type, types.FunctionType, types.BuiltinFunctionType, types.MethodType)


def _of_class(kind: type, name: str) -> Any:
    return next((vars(one)[name] for one in kind.__mro__ if name in vars(one)), _MISSING)


def _set_globals(space: dict[str, Any]) -> frozenset[str]:
    """Return the globals of a module that its reachable functions assign."""
    module = sys.modules.get(space.get("__name__", ""))
    if module is None or vars(module) is not space:
        return frozenset(_stores(space))
    # A module that is loaded anew is the same one, with another spec.
    spec = space.get("__spec__")
    known = _KNOWN.get(module)
    is_known = known is not None and known[0] is spec and known[1] == len(space)
    if known is None or not is_known or module.__name__ == _MAIN:
        known = _KNOWN[module] = spec, len(space), frozenset(_stores(space))
    return known[2]


_KNOWN: WeakKeyDictionary[types.ModuleType, tuple[Any, int, frozenset[str]]] = WeakKeyDictionary()


def _stores(space: dict[str, Any]) -> Iterator[str]:
    seen: set[types.CodeType] = set()
    for value in list(space.values()):
        for function in _functions_in(value, space, _DEEPEST):
            yield from _stores_of(function.__code__, seen)


def _functions_in(value: Any, space: dict[str, Any], depth: int) -> Iterator[types.FunctionType]:
    if depth == 0:
        return
    if isinstance(value, types.FunctionType):
        if value.__globals__ is space:
            yield value
        wrapped = vars(value).get("__wrapped__")
        if wrapped is not None:
            yield from _functions_in(wrapped, space, depth - 1)
    elif isinstance(value, staticmethod | classmethod):
        yield from _functions_in(value.__func__, space, depth - 1)
    elif isinstance(value, property):
        for part in (value.fget, value.fset, value.fdel):
            yield from _functions_in(part, space, depth - 1)
    elif isinstance(value, type) and value.__module__ == space.get("__name__"):
        for part in list(vars(value).values()):
            yield from _functions_in(part, space, depth - 1)


def _stores_of(code: types.CodeType, seen: set[types.CodeType]) -> Iterator[str]:
    if code in seen:
        return
    seen.add(code)
    if not _SETS.isdisjoint(code.co_code[::2]):
        for instruction in dis.get_instructions(code):
            if instruction.opcode in _SETS:
                yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _stores_of(constant, seen)
