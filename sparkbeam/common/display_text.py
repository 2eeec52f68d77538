"""Texts on their way to a terminal, a page or a log: without secrets, printable, not too long.

A text that comes from a file, an element or another process may hold whatever its author wants.
"""

import re
from collections.abc import Callable
from typing import Any

from sparkbeam.common.secret_patterns import hidden

_OBEYED = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f\ufeff"
    r"\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
_BREAKS = re.compile(r"[\t\n\u2028\u2029]")

_NAME = r"""[^\s/\\:'"]+"""
_FOLDERS = re.compile(rf"(?<![\w.])~?(?:[A-Za-z]:)?(?:[/\\]{_NAME})+[/\\](?={_NAME})")
"""The folders of an absolute path, up to the name of the file."""

_WHOLE = 100_000
_LONGEST_SECRET = 10_000


def printable(text: str) -> str:
    """The text with escapes in the place of characters that a terminal or a browser obeys.

    These are control characters but for tabs and ends of lines, what changes the direction of
    writing, and halves of characters, which nothing can encode.
    """
    if text.isascii() and text.isprintable():
        return text
    return _OBEYED.sub(_escaped, text)


def line(text: str) -> str:
    """The same on one line."""
    return _BREAKS.sub(_escaped, printable(text))


def without_folders(text: str) -> str:
    """The text with only the last name of each absolute path."""
    return _FOLDERS.sub("", text)


def printable_in(value: Any, shown: Callable[[str], str] = printable) -> Any:
    """A value of JSON with printable texts, names included."""
    if isinstance(value, str):
        return shown(value)
    if isinstance(value, dict):
        return {printable_in(key, shown): printable_in(item, shown) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [printable_in(item, shown) for item in value]
    return value


def shortened(text: str, most: int, hide: Callable[[str], str] = hidden) -> str:
    """A printable text without secrets and, where it is longer, without its middle.

    What is secret is taken out first: half of a secret would not be recognized any more.

    Args:
        text: of any length.
        most: how many characters are left.
        hide: takes secrets out.
    """
    if len(text) > _WHOLE:
        return f"{printable(_beginning(text, hide))[: most - 1]}…"
    return _cut(printable(hide(text)), most)


def beginning(text: str, most: int, hide: Callable[[str], str] = hidden) -> str:
    """The same, without the end of a text that is longer."""
    return _start(printable(concealed(text, most, hide)), most)


def concealed(text: str, most: int, hide: Callable[[str], str] = hidden) -> str:
    """The beginning of a text without secrets, with its control characters."""
    return _start(hide(text) if len(text) <= _WHOLE else f"{_beginning(text, hide)}…", most)


def _beginning(text: str, hide: Callable[[str], str]) -> str:
    """The beginning of a text, as far as surely no secret is cut by its end."""
    longer = hide(text[:_WHOLE])
    shorter = hide(text[: _WHOLE - _LONGEST_SECRET])
    same = (
        number
        for number, pair in enumerate(zip(longer, shorter, strict=False))
        if pair[0] != pair[1]
    )
    return longer[: next(same, min(len(longer), len(shorter)))]


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    tail = most // 3
    return f"{text[: most - tail - 1]}…{text[len(text) - tail :]}"


def _start(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _escaped(found: re.Match[str]) -> str:
    return ascii(found.group())[1:-1]
