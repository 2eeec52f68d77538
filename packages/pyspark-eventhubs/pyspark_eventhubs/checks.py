"""Checks of options and arguments, which raise a ValueError of one line."""

import json
import re
from collections.abc import Sequence
from numbers import Integral, Real
from operator import index
from typing import Any, SupportsIndex, TypeGuard

_SHOWN = 60
_LONGEST = 1e6
_SECRET = re.compile(
    r"""(?ix) ((?:key|password|secret|sig|token)\w* ["']?\s*[=:]\s*["']?) [^\s;&,"']+
    | (?<=://)[^/\s@]+(?=@)  # The account of a URL.
    | \beyJ[\w-]+(?:\.[\w-]+)+  # A token of Azure AD."""
)


def shown(value: object) -> str:
    """Format a value for a message, with at most 60 characters."""
    return beginning(repr(value), _SHOWN)


def beginning(text: str, most: int) -> str:
    """Return the beginning of a text, without secrets."""
    found = _SECRET.sub(lambda secret: f"{secret[1] or ''}…", text)
    return found if len(found) <= most else f"{found[: most - 1]}…"


def parsed_json(text: str) -> Any:
    """Parse JSON; raise a JSONDecodeError also for what is nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise json.JSONDecodeError("Nested too deeply", text[:1], 0) from None


def is_whole(value: object) -> TypeGuard[SupportsIndex]:
    """Return whether a value is an integer, of Python or numpy, and no bool."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def whole_number(name: str, value: object, *, least: int, most: int) -> int:
    """Check for an integer within inclusive limits."""
    if not is_whole(value):
        raise ValueError(f"{name}={shown(value)} must be a whole number: from {least} to {most}.")
    found = index(value)
    if not least <= found <= most:
        bound = f"at least {least}" if found < least else f"at most {most}"
        raise ValueError(f"{name}={shown(value)} must be {bound}.")
    return found


def seconds(name: str, value: Any) -> float:
    """Check for a duration in seconds."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= _LONGEST:
        raise ValueError(
            f"{name}={shown(value)} must be a duration in seconds, from 0 to {_LONGEST:g}: for "
            "example 60."
        )
    return float(value)


def text(name: str, value: object, remedy: str) -> str:
    """Check for a string that is not empty."""
    if not isinstance(value, str):
        raise ValueError(f"{name}={shown(value)} must be a string: {remedy}.")
    if not value.strip():
        raise ValueError(f"{name}='' is empty: {remedy}.")
    return value


def one_of(name: str, value: str, choices: Sequence[str]) -> str:
    """Check for one of the given strings."""
    if value not in choices:
        raise ValueError(f"{name}={shown(value)} must be one of {', '.join(choices)}.")
    return value
