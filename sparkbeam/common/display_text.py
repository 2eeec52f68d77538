"""Text for a terminal, a page or a log: without secrets, printable, bounded in length.

Text from a file, an element or another process is untrusted.
"""

import re
from collections.abc import Callable
from os.path import commonprefix
from typing import Any

from sparkbeam.common.secret_patterns import hidden

_OBEYED = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f\ufeff"
    r"\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
_BREAKS = re.compile(r"[\t\n\u2028\u2029]")

_NAME = r"""[^\s/\\:'"]+"""
_FOLDERS = re.compile(rf"(?<![\w.])~?(?:[A-Za-z]:)?(?:[/\\]{_NAME})+[/\\](?={_NAME})")
"""The folders of an absolute path, up to the file name."""

_WHOLE = 100_000
_LONGEST_SECRET = 10_000


def printable(text: str) -> str:
    """Escape the characters that control a terminal or a browser.

    These are control characters other than tabs and line ends, characters that change the writing
    direction, and lone surrogates.
    """
    if text.isascii() and text.isprintable():
        return text
    return _OBEYED.sub(_escaped, text)


def line(text: str) -> str:
    """Like :func:`printable`, on one line."""
    return _BREAKS.sub(_escaped, printable(text))


def without_folders(text: str) -> str:
    """Reduce each absolute path to its last name."""
    return _FOLDERS.sub("", text)


def printable_in(value: Any, shown: Callable[[str], str] = printable) -> Any:
    """Make all strings of a JSON value printable, keys included."""
    if isinstance(value, str):
        return shown(value)
    if isinstance(value, dict):
        return {printable_in(key, shown): printable_in(item, shown) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [printable_in(item, shown) for item in value]
    return value


def shortened(text: str, most: int, hide: Callable[[str], str] = hidden) -> str:
    """Remove secrets, make printable, and drop the middle if too long.

    Secrets are removed first, as a part of one would not be recognized.

    Args:
        most: the maximum number of characters.
    """
    if len(text) > _WHOLE:
        return f"{printable(_beginning(text, hide))[: most - 1]}…"
    found, tail = printable(hide(text)), most // 3
    if len(found) <= most:
        return found
    return f"{found[: most - tail - 1]}…{found[len(found) - tail :]}"


def error_line(error: BaseException, most: int = 300, hide: Callable[[str], str] = hidden) -> str:
    """Return the type and the message of an error on one line, as :func:`shortened` does."""
    return shortened(f"{type(error).__name__}: {' '.join(str(error).split())}", most, hide)


def beginning(text: str, most: int, hide: Callable[[str], str] = hidden) -> str:
    """Like :func:`shortened`, but drop the end if too long."""
    return _start(printable(concealed(text, most, hide)), most)


def concealed(text: str, most: int, hide: Callable[[str], str] = hidden) -> str:
    """Return the beginning of a text without secrets, with its control characters."""
    return _start(hide(text) if len(text) <= _WHOLE else f"{_beginning(text, hide)}…", most)


def _beginning(text: str, hide: Callable[[str], str]) -> str:
    """Return the longest beginning that certainly cuts no secret."""
    hidden_twice = [hide(text[:_WHOLE]), hide(text[: _WHOLE - _LONGEST_SECRET])]
    return commonprefix(hidden_twice)  # noqa: RUF071 - of characters, not of folders.


def _start(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _escaped(found: re.Match[str]) -> str:
    return ascii(found.group())[1:-1]
