"""Parsing of untrusted JSON files, and of dataclasses in them."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

MOST_BYTES = 1 << 28
"""Largest accepted file, in bytes."""

_DEEPEST = 40
_MOST_DIGITS = 40

T = TypeVar("T")


def loaded(content: bytes | str, kind: type | tuple[type, ...] = dict) -> Any:
    """Parse a JSON text.

    Args:
        content: the text.
        kind: the expected top-level type.

    Raises:
        ValueError: it is not JSON, has another type, is nested too deeply, or has a number that is
            not finite or too long.
    """
    if len(content) > MOST_BYTES:
        raise ValueError("it is too large")
    try:
        found = json.loads(content, parse_int=_whole, parse_float=_number, parse_constant=_number)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(found, kind):
        raise ValueError(f"it is a {type(found).__name__}")
    _check_depth(found)
    return found


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(_DEEPEST):
        level = [part for each in level for part in _parts(each) if isinstance(part, (dict, list))]
        if not level:
            return
    raise ValueError("it is nested too deeply")


def _parts(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value


def _whole(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError("a number has too many digits")
    return int(digits)


def _number(text: str) -> float:
    found = float(text)
    if not math.isfinite(found):
        raise ValueError(f"{text} is not finite")
    return found


def whole(value: Any) -> int:
    """Check for a 64-bit integer.

    Raises:
        ValueError: it is something else.
    """
    if type(value) is not int or not -(1 << 63) <= value < 1 << 63:
        raise ValueError("it is not a whole number")
    return value


def text(value: Any) -> str:
    """Check for a string.

    Raises:
        ValueError: it is something else.
    """
    if not isinstance(value, str):
        raise ValueError("it is not a string")
    return value


def parsed(kind: type[T], content: Any) -> T:
    """Return the dataclass that a JSON object holds, as written from ``dataclasses.asdict``.

    Fields with defaults may be missing, and unknown ones are ignored, as another version may have
    written the file. The types of fields may be numbers, strings, booleans, ``Any``,
    dataclasses, named tuples, and tuples, sequences, mappings and optional values of these.

    Raises:
        ValueError: a field is missing or of another type.
    """
    types, needed = _fields(kind)  # type: ignore[arg-type] # Types can be hashed.
    if not isinstance(content, dict) or not needed <= content.keys():
        raise ValueError(f"it is not a {kind.__name__}")
    known = types.keys() & content.keys()
    return kind(**{name: _typed(types[name], content[name]) for name in known})


@cache
def _fields(kind: Any) -> tuple[dict[str, Any], frozenset[str]]:
    """Return the types of a dataclass's fields, and the names of those without defaults."""
    needed = (f.name for f in fields(kind) if f.default is f.default_factory is MISSING)
    return get_type_hints(kind), frozenset(needed)


def _typed(kind: Any, value: Any) -> Any:
    """Return a JSON value as a type says."""
    parts = get_args(kind)
    if kind is Any or (value is None and NoneType in parts):
        return value
    if kind in _SIMPLE:
        return _SIMPLE[kind](value)
    if is_dataclass(kind):
        return parsed(kind, value)  # type: ignore[arg-type]
    if NoneType in parts:
        return _typed(parts[0], value)
    if issubclass(get_origin(kind) or kind, Mapping):
        return {name: _typed(parts[1], item) for name, item in _checked(value, dict).items()}
    return _listed(kind, parts, _checked(value, list | tuple))


def _listed(kind: Any, parts: tuple[Any, ...], values: Any) -> Any:
    """Return a sequence, a tuple or a named tuple."""
    if parts and (len(parts) == 1 or parts[1] is ...):
        return tuple(_typed(parts[0], value) for value in values)
    types = parts or tuple(get_type_hints(kind).values())
    if len(types) != len(values):
        raise ValueError("it has another length")
    found = tuple(map(_typed, types, values))
    return found if parts else kind(*found)


def _checked(value: Any, kind: Any) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"it is a {type(value).__name__}")
    return value


def _real(value: Any) -> float:
    if type(value) is not float:
        return float(whole(value))
    if not math.isfinite(value):
        raise ValueError("it is not finite")
    return value


_SIMPLE: dict[Any, Any] = {
    int: whole,
    float: _real,
    str: text,
    bool: lambda value: _checked(value, bool),
}
