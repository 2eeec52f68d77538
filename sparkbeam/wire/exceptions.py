"""Exceptions as data: the names of their types, their arguments and attributes.

Restoring an exception runs only Python's own code: its class must already be loaded, and nothing of
a user's is imported or called.
"""

import base64
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

_MOST_BYTES = 16 << 10
_MOST_BITS = 4000
_DEEPEST = 4
_HEAP_TYPE = 1 << 9
"""CPython's flag of types that are not built in (Py_TPFLAGS_HEAPTYPE)."""

Shown = Callable[[str], str]
"""Redacts a text."""


@dataclass(frozen=True)
class ExceptionData:
    """Data of an exception.

    Attributes:
        types: module and qualified name of its class and of its exception base classes, in the
            order of the class.
        args, attributes: its content, as JSON.
    """

    types: list[list[str]]
    args: list[Any]
    attributes: dict[str, Any]

    @classmethod
    def from_exception(cls, error: BaseException, shown: Shown) -> "ExceptionData":
        """Return the data of an exception."""
        kinds = [kind for kind in type(error).__mro__ if issubclass(kind, BaseException)]
        types = [[kind.__module__, kind.__qualname__] for kind in kinds]
        # The args of an OSError lack file names.
        args = OSError.__reduce__(error)[1] if isinstance(error, OSError) else error.args
        found = cls(
            types,
            [_plain(value, shown) for value in args],
            {
                name: _plain(value, shown)
                for name, value in vars(error).items()
                if _is_plain(value, _DEEPEST)
            },
        )
        if len(json.dumps([found.args, found.attributes])) > _MOST_BYTES:
            return cls(types, [shown(_text(error))], {})
        return found

    def exception(self) -> BaseException:
        """Restore the exception with its class, or the nearest base class that is loaded."""
        known = (_known(module, name) for module, name in self.types)
        kind = next((kind for kind in known if kind is not None), Exception)
        error = _instantiate(kind, tuple(map(_value, self.args)))
        vars(error).update({name: _value(value) for name, value in self.attributes.items()})
        return error


def _plain(value: Any, shown: Shown) -> Any:
    """Convert a value to JSON; anything but plain data becomes text."""
    if value is None or type(value) is bool:
        return value
    if type(value) is str:
        return shown(value)
    if type(value) in (tuple, list) and _is_plain(value, _DEEPEST):
        return {type(value).__name__: [_plain(part, shown) for part in value]}
    text = _text(value)
    if not _is_plain(value, 0) or shown(text) != text:
        return shown(text)
    return value if type(value) is not bytes else {"bytes": base64.b64encode(value).decode()}


def _is_plain(value: Any, depth: int) -> bool:
    if type(value) is int:
        return value.bit_length() <= _MOST_BITS
    if type(value) in (tuple, list):
        return depth > 0 and all(_is_plain(part, depth - 1) for part in value)
    return value is None or type(value) in (bool, float, str, bytes)


def _value(plain: Any) -> Any:
    """Restore a value of :func:`_plain`."""
    if type(plain) is not dict:
        return plain
    ((kind, content),) = plain.items()
    if kind == "bytes":
        return base64.b64decode(content)
    values = map(_value, content)
    return tuple(values) if kind == "tuple" else list(values)


def _text(value: Any) -> str:
    try:
        return str(value) if isinstance(value, BaseException) else repr(value)
    except Exception:  # A user's class may fail in any way.
        return f"<{type(value).__name__}>"


def _known(module: str, name: str) -> type[Exception] | None:
    """Return an exception class if it is loaded."""
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        if not isinstance(found, ModuleType | type):
            return None
        found = vars(found).get(part)
    return found if isinstance(found, type) and issubclass(found, Exception) else None


def _instantiate(kind: type[Exception], args: tuple[Any, ...]) -> Exception:
    """Create an instance with Python's constructor of its built-in base class.

    The constructor of a user's class is not called, as it may do anything.
    """
    bases: tuple[Any, ...] = kind.__mro__
    for base in bases:
        if base.__module__ != "builtins" or base.__flags__ & _HEAP_TYPE:
            continue
        try:
            error: Exception = base.__new__(kind, *args)
            base.__init__(error, *args)
        except TypeError:
            continue  # It takes other arguments, or does not fit the class.
        return error
    return Exception(*args)
