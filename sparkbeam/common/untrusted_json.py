"""Parsing of untrusted JSON files."""

import json
import math
from collections.abc import Iterable
from typing import Any

MOST_BYTES = 1 << 28
"""Largest accepted file, in bytes."""

_DEEPEST = 40
_MOST_DIGITS = 40


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
