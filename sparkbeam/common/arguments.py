"""Checks of user input: options and arguments of public functions.

Each check returns its value, or raises a :class:`ConfigurationError` of one or two lines that names
the argument, the given value and the accepted values.
"""

import difflib
import errno
import numbers
import os
import re
from collections.abc import Callable, Iterable, Sequence
from operator import index
from pathlib import Path
from typing import Any, SupportsIndex, TypeGuard

from sparkbeam.common.display_text import shortened
from sparkbeam.errors import ConfigurationError

_SHOWN = 60
"""Maximum number of characters of a value in a message."""

_LISTED = 12
"""Maximum number of choices in a message."""


def shown(value: object, most: int = _SHOWN) -> str:
    """Format a value for a message: one printable line of at most ``most`` characters."""
    try:
        text = repr(value)
    except Exception:  # A huge integer, or an error in the user's ``__repr__``.
        text = f"<{type(value).__name__}>"
    if not text.isprintable():
        text = text.encode("unicode_escape").decode()
    return shortened(text, most)


def listed(names: Iterable[str]) -> str:
    """Join names for a message; only the first ones of many."""
    found = list(names)
    some = [shortened(name, _SHOWN) for name in found[:_LISTED]]
    return ", ".join(some) + (f" and {len(found) - _LISTED} more" if len(found) > _LISTED else "")


def nearest(name: str, known: Iterable[str], *, similarity: float = 0.75) -> str | None:
    """Return the known name that a misspelt one resembles most; None for none.

    Args:
        name: of an option or a key; case and punctuation do not count.
        similarity: by difflib, from which a name is taken for another.
    """
    by_letters = {squeezed(each): each for each in known}
    # A much longer name is never close, and difflib would be slow.
    found = difflib.get_close_matches(squeezed(name)[:80], by_letters, 1, similarity)
    return by_letters[found[0]] if found else None


def squeezed(name: str) -> str:
    """Return the name of an option or a key in lower case and without punctuation."""
    return re.sub(r"[-_. ]", "", name).lower()


def text(name: str, value: object, remedy: str, *, secret: bool = False) -> str:
    """Check for a non-empty string that files, Spark and the network accept.

    Args:
        secret: the value may hold a secret and is not repeated.
    """
    if not isinstance(value, str):
        raise _wrong(
            name, type(value).__name__ if secret else shown(value), "must be a string", remedy
        )
    if not value.strip():
        raise _wrong(name, "''", "is empty", remedy)
    if "\0" in value or not _is_encodable(value):
        what = "…" if secret else shown(value)
        raise _wrong(name, what, "has a character that is not allowed", remedy)
    return value


def whole_number(name: str, value: object, *, least: int, most: int) -> int:
    """Check for an integer within inclusive limits."""
    if not is_whole(value):
        raise _wrong(name, shown(value), "must be a whole number", f"from {least} to {most}")
    found = index(value)
    if found < least:
        raise _wrong(name, shown(value), f"must be at least {least}")
    if found > most:
        raise _wrong(name, shown(value), f"must be at most {most}")
    return found


def is_whole(value: object) -> TypeGuard[SupportsIndex]:
    """Return whether a value is an integer, of Python or numpy, and no bool."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def duration(name: str, value: Any, unit: str, *, most: float) -> float:
    """Check for a finite, non-negative duration."""
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= most:
        problem = f"must be a duration in {unit}, from 0 to {most:g}"
        raise _wrong(name, shown(value), problem, "for example 60")
    return float(value)


def one_of(name: str, value: object, choices: Sequence[str]) -> str:
    """Check for one of the given strings."""
    if not isinstance(value, str) or value not in choices:
        raise _wrong(name, shown(value), f"must be one of {listed(choices)}")
    return value


def names(name: str, value: object, remedy: str, *, least: int = 1) -> tuple[str, ...]:
    """Check for a list of at least ``least`` distinct strings."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise _wrong(name, shown(value), "must be a list of names", remedy)
    found = tuple(text(name, item, remedy) for item in value)
    if len(found) < least:
        raise _wrong(name, "[]", "must not be empty", remedy)
    if len(set(found)) < len(found):
        raise _wrong(name, shown(value), "has a duplicate", remedy)
    return found


def function(name: str, value: object, remedy: str) -> Callable[..., Any]:
    """Check for a callable."""
    if not callable(value):
        raise _wrong(name, shown(value), "must be a function", remedy)
    return value


def path(name: str, value: object, remedy: str) -> str:
    """Check for a file name, given as a string or a path."""
    return text(name, os.fspath(value) if isinstance(value, os.PathLike) else value, remedy)


def is_path(value: str | bytes) -> bool:
    """Return whether the file system accepts a path."""
    try:
        os.stat(value)
    except FileNotFoundError:
        return bool(value)
    except OSError as error:
        return error.errno != errno.ENAMETOOLONG
    except ValueError:  # A null byte or a lone surrogate.
        return False
    return True


def is_file(value: str) -> bool:
    """Return whether a path is that of a file."""
    try:
        return Path(value).is_file()
    except (OSError, ValueError):  # For example, the name is too long.
        return False


def flag(name: str, value: object) -> bool:
    """Check for a bool."""
    if not isinstance(value, bool):
        raise _wrong(name, shown(value), "must be True or False")
    return value


def _is_encodable(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:  # A lone surrogate.
        return False
    return True


def _wrong(name: str, value: str, problem: str, remedy: str = "") -> ConfigurationError:
    return ConfigurationError(f"{name}={value} {problem}{f': {remedy}' if remedy else ''}.")
