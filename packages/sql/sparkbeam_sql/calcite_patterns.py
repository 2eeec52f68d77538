"""Patterns of ``LIKE`` and ``SIMILAR TO``."""

import re

from sparkbeam_sql.calcite_dialect import QueryRefused

MATCHES = "matches({1}, {0})"
"""Test of a text and a regular expression, in Python."""


def like(pattern: str, escape: str = "") -> tuple[str, str]:
    """Return the test of ``LIKE`` with braces for two texts, and the second one of these.

    Args:
        pattern: the pattern.
        escape: the character that makes a wildcard a plain one; empty for none.
    """
    parts = list(_parts_of_like(pattern, escape))
    plain = "".join(text for text, is_wildcard in parts if not is_wildcard)
    wildcards = [(at, text) for at, (text, is_wildcard) in enumerate(parts) if is_wildcard]
    ends = [at for at, _ in wildcards]
    if all(text == "%" for _, text in wildcards):
        if not ends:
            return "({} == {})", plain
        if ends == [len(parts) - 1]:
            return "{}.startswith({})", plain
        if ends == [0]:
            return "{}.endswith({})", plain
        if ends == [0, len(parts) - 1]:
            return "({1} in {0})", plain
    signs = {"%": ".*", "_": "."}
    found = "".join(signs[text] if is_wild else re.escape(text) for text, is_wild in parts)
    return MATCHES, found


def _parts_of_like(pattern: str, escape: str) -> list[tuple[str, bool]]:
    """Return the characters of a pattern, and whether each is a wildcard."""
    parts = []
    characters = iter(pattern)
    for each in characters:
        if each == escape:
            following = next(characters, "")
            if following not in ("%", "_", escape) or not following:
                raise QueryRefused(
                    f"the pattern {pattern[:40]!r}, whose escape is not before a wildcard"
                )
            parts.append((following, False))
        else:
            parts.append((each, each in "%_"))
    return parts


_SIGNS = "|*+?(){}"
_ESCAPED = f"{_SIGNS}[]^-_%"
_CLASSES = {
    "ALPHA": "a-zA-Z",
    "UPPER": "A-Z",
    "LOWER": "a-z",
    "DIGIT": "0-9",
    "ALNUM": "a-zA-Z0-9",
    "SPACE": " ",
    "WHITESPACE": r"\s",
}


def regex_of_similar(pattern: str, escape: str = "") -> str:
    """Return a regular expression, for Java and Python, of a pattern of ``SIMILAR TO``.

    Args:
        pattern: the pattern.
        escape: the character that makes a sign a plain character; empty for none.
    """
    found, at = [], 0
    while at < len(pattern):
        each = pattern[at]
        if each == escape:
            at += 1
            if pattern[at : at + 1] not in {*_ESCAPED, escape}:
                raise _invalid(pattern)
            found.append(re.escape(pattern[at]))
        elif each == "[":
            end = pattern.find("]", at)
            while pattern[at + 1 : end].count("[:") != pattern[at + 1 : end + 1].count(":]"):
                end = pattern.find("]", end + 1)
                if end < 0:
                    break
            if end < 0 or (escape and escape in pattern[at:end]):
                raise _invalid(pattern)
            found.append(_class_of(pattern[at + 1 : end]))
            at = end
        else:
            signs = {"%": ".*", "_": "."}
            found.append(signs.get(each, each if each in _SIGNS else re.escape(each)))
        at += 1
    regex = "".join(found)
    try:
        re.compile(regex)
    except re.error:
        raise _invalid(pattern) from None
    return regex


def _class_of(inner: str) -> str:
    is_negative = inner.startswith("^")
    rest = inner.removeprefix("^")
    for name in _CLASSES:
        rest = re.sub(rf"\[:{name}:\]", f"\0{name}\0", rest, flags=re.IGNORECASE)
    if not rest:
        raise _invalid(inner)
    escaped = re.sub(r"[\[\]\\&~|^]", lambda found: f"\\{found[0]}", rest)
    for name, characters in _CLASSES.items():
        escaped = escaped.replace(f"\0{name}\0", characters)
    return f"[{'^' if is_negative else ''}{escaped}]"


def _invalid(pattern: str) -> QueryRefused:
    return QueryRefused(f"the pattern {pattern[:40]!r} of SIMILAR TO, which is not valid")
