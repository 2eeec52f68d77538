"""Checks of what users pass: options, and the arguments of the public functions.

Each check returns what it was given, or raises a :class:`ConfigurationError` of one or two lines
that says which argument it is, what was given, and what may be given instead.
"""

import errno
import numbers
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sparkbeam.common.display_text import shortened
from sparkbeam.errors import ConfigurationError

_SHOWN = 60
"""How many characters of a value a message repeats."""

_LISTED = 12
"""How many of the possible values a message lists."""


def shown(value: object, most: int = _SHOWN) -> str:
    """A value as a message shows it: on one line, printable, and at most so many characters."""
    try:
        text = repr(value)
    except Exception:  # Of a whole number with thousands of digits, or by the user's own code.
        text = f"<{type(value).__name__}>"
    if not text.isprintable():
        text = text.encode("unicode_escape").decode()
    return shortened(text, most)


def listed(names: Iterable[str]) -> str:
    """Names for a message; of many only the first ones."""
    found = list(names)
    some = [shortened(name, _SHOWN) for name in found[:_LISTED]]
    return ", ".join(some) + (f" and {len(found) - _LISTED} more" if len(found) > _LISTED else "")


def text(name: str, value: object, remedy: str, *, secret: bool = False) -> str:
    """A text that is not empty, and that files, Spark and the network can take.

    Args:
        name: of the argument.
        value: what was given.
        remedy: what to give instead.
        secret: the value may hold one, so it is not repeated.
    """
    if not isinstance(value, str):
        raise _wrong(name, type(value).__name__ if secret else shown(value), "is no text", remedy)
    if not value.strip():
        raise _wrong(name, "''", "is empty", remedy)
    if "\0" in value or not _is_encodable(value):
        what = "…" if secret else shown(value)
        raise _wrong(name, what, "has a character that no name can have", remedy)
    return value


def whole_number(name: str, value: object, *, least: int, most: int) -> int:
    """A whole number within limits, both included."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise _wrong(name, shown(value), "must be a whole number", f"from {least} to {most}")
    if value < least:
        raise _wrong(name, shown(value), f"must be at least {least}")
    if value > most:
        raise _wrong(name, shown(value), f"must be at most {most}")
    return value


def duration(name: str, value: Any, unit: str, *, most: float) -> float:
    """A time span that is neither negative nor endless nor none."""
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= most:
        remedy = f"it is a number of {unit}, such as 60, of at least 0 and at most {most:g}"
        raise _wrong(name, shown(value), "is no such time", remedy)
    return float(value)


def one_of(name: str, value: object, choices: Sequence[str]) -> str:
    """One of some texts."""
    if not isinstance(value, str) or value not in choices:
        raise _wrong(name, shown(value), f"is none of {listed(choices)}")
    return value


def names(name: str, value: object, remedy: str, *, least: int = 1) -> tuple[str, ...]:
    """A sequence of different texts, and no text itself; at least so many."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise _wrong(name, shown(value), "is no list of names", remedy)
    found = tuple(text(name, item, remedy) for item in value)
    if len(found) < least:
        raise _wrong(name, "[]", "names nothing", remedy)
    if len(set(found)) < len(found):
        raise _wrong(name, shown(value), "names something twice", remedy)
    return found


def function(name: str, value: object, remedy: str) -> Callable[..., Any]:
    """Something to call."""
    if not callable(value):
        raise _wrong(name, shown(value), "is no function", remedy)
    return value


def path(name: str, value: object, remedy: str) -> str:
    """The name of a file, as a text or a path."""
    return text(name, os.fspath(value) if isinstance(value, os.PathLike) else value, remedy)


def is_path(value: str | bytes) -> bool:
    """Whether a file system can be asked about a path at all."""
    try:
        os.stat(value)
    except FileNotFoundError:
        return bool(value)
    except OSError as error:
        return error.errno != errno.ENAMETOOLONG
    except ValueError:  # A zero byte, a surrogate on its own.
        return False
    return True


def flag(name: str, value: object) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise _wrong(name, shown(value), "is neither True nor False")
    return value


def _is_encodable(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:  # A surrogate on its own.
        return False
    return True


def _wrong(name: str, value: str, problem: str, remedy: str = "") -> ConfigurationError:
    return ConfigurationError(f"{name}={value} {problem}{f': {remedy}' if remedy else ''}.")
