"""Parsing of untrusted JSON files, and of dataclasses in them."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache, partial
from itertools import chain
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

MOST_BYTES = 1 << 28
"""Largest accepted file, in bytes."""

_DEEPEST = 40
_MOST_DIGITS = 40

T = TypeVar("T")
_Reader = Callable[[Any], Any]


def loaded(content: bytes | str, kind: type | tuple[type, ...] = dict) -> Any:
    """Parse a JSON text.

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
        parts = (each.values() if isinstance(each, dict) else each for each in level)
        level = [part for part in chain.from_iterable(parts) if isinstance(part, dict | list)]
        if not level:
            return
    raise ValueError("it is nested too deeply")


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
    readers, needed = _fields(kind)  # type: ignore[arg-type] # Types can be hashed.
    if not isinstance(content, dict) or not needed <= content.keys():
        raise ValueError(f"it is not a {kind.__name__}")
    known = readers.keys() & content.keys()
    return kind(**{name: readers[name](content[name]) for name in known})


@cache
def _fields(kind: Any) -> tuple[dict[str, _Reader], frozenset[str]]:
    """Return the readers of a dataclass's fields, and the names of those without defaults."""
    needed = (f.name for f in fields(kind) if f.default is f.default_factory is MISSING)
    readers = {name: _reader(of) for name, of in get_type_hints(kind).items()}
    return readers, frozenset(needed)


def _reader(kind: Any) -> _Reader:
    """Return a function that checks a JSON value and converts it to a type."""
    parts = get_args(kind)
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if is_dataclass(kind):
        return partial(parsed, kind)  # type: ignore[arg-type] # It is a type.
    if NoneType in parts:
        some = _reader(parts[0])
        return lambda value: None if value is None else some(value)
    if issubclass(get_origin(kind) or kind, Mapping):
        item = _reader(parts[1])
        return lambda value: {name: item(each) for name, each in _checked(value, dict).items()}
    if parts and (len(parts) == 1 or parts[1] is ...):
        item = _reader(parts[0])
        return lambda value: tuple(map(item, _checked(value, list | tuple)))
    made = kind._make if hasattr(kind, "_make") else tuple
    return partial(_record, made, [*map(_reader, parts or get_type_hints(kind).values())])


def _record(made: Any, readers: list[_Reader], values: Any) -> Any:
    """Return a tuple or a named tuple."""
    if len(readers) != len(_checked(values, list | tuple)):
        raise ValueError("it has the wrong length")
    return made(reader(value) for reader, value in zip(readers, values, strict=True))


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


_SIMPLE: dict[Any, _Reader] = {
    Any: lambda value: value,
    int: whole,
    float: _real,
    str: text,
    bool: lambda value: _checked(value, bool),
}
