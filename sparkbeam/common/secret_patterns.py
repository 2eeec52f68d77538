"""Recognition of secrets in text: values of telling names, accounts in URLs, and known tokens.

A name and its value may be those of a connection string, a header, a command line, JSON, YAML,
properties or options in SQL. A token is known by its prefix.
"""

import re
from collections.abc import Iterator

HIDDEN = "***"

Span = tuple[int, int]
"""Start and end of a secret."""

HARMLESS = frozenset(["", "none", "null", "nil", "true", "false", "earliest", "latest", HIDDEN])


def hidden(text: str) -> str:
    """Replace everything that looks like a secret with ``***``."""
    parts, until = [], -1
    for start, end in sorted(spans(text)):
        if start > until:  # Otherwise it is a part of the one before, or continues it.
            parts += [text[max(0, until) : start], HIDDEN]
        until = max(until, end)
    return "".join(parts) + text[max(0, until) :]


def spans(text: str) -> Iterator[Span]:
    """Find what looks like a secret; the spans may overlap."""
    for pattern in (_TOKEN, _SCHEME, _HOOK, _ORACLE):
        for found in pattern.finditer(text):
            yield found.span("value")
    yield from _of_accounts(text)
    yield from _of_pairs(text)


def is_harmless(value: str) -> bool:
    """Return whether a value reveals nothing: a null or a placeholder."""
    bare = value.strip("\\\"'`")
    return bare.lower() in HARMLESS or _PLACEHOLDER.fullmatch(bare) is not None


_PLACEHOLDER = re.compile(r"\$\{?[A-Z_]+\}?|<[a-z_ -]*>?|\{[a-z_]*\}|%s|%\([a-z_]+\)s|\*+|\.{3}|…")

_TOKEN = re.compile(
    r"(?<![\w-])(?P<value>gh[a-z]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{15,}"
    r"|xox[a-z]-[\w-]{8,}|sk_(?:live|test)_[\w-]{16,}|sk-(?:or-v1-)?[0-9a-f]{32,}"
    r"|sk-(?=[\w-]*\d)(?=[\w-]*[A-Z])[\w-]{16,}|AIza[\w-]{30,}|A(?:KI|SI)A[0-9A-Z]{16}(?!\w)"
    r"|dapi[0-9a-f]{32}|SG\.[\w-]{16,}\.[\w-]{16,}|hf_[A-Za-z0-9]{20,}|npm_[A-Za-z0-9]{20,}"
    r"|pypi-AgE[\w-]{16,}|eyJ[\w-]{5,}\.eyJ[\w-]{5,}(?:\.[\w-]*)?)"
)
_HOOK = re.compile(r"https?://[\w.-]{0,99}?hooks?\.[\w.-]{1,99}(?::\d+)?/(?P<value>[^\s\"'<>?#]+)")
"""An address whose path is the secret."""

_ORACLE = re.compile(
    r"jdbc:oracle:\w+:[^\s@/]{0,99}/(?P<value>\"[^\"\n]{0,999}\"|[^\s@\"'][^\s@]{0,999})(?=@)"
)
_SCHEMES = r"bearer|basic|digest|token|api-?key|key|negotiate|sharedaccesssignature"
_SCHEME = re.compile(
    rf"(?:\b(?:bearer|basic|apikey)|\bauthorization\\*[\"']?\s*[:=]\s*\\*[\"']?(?:{_SCHEMES}))"
    r"(?:\s|%20|\+)+(?P<value>(?=[^\s\"',;]{0,99}[\d=])[\w.~+/=%:-]{6,}|[\w.~+/=%:-]{20,})",
    re.IGNORECASE,
)
"""The credentials of a header of HTTP, with a digit or longer than a word."""


def is_scheme(word: str) -> bool:
    """Return whether a word is an ``Authorization`` scheme."""
    return re.fullmatch(_SCHEMES, word, re.IGNORECASE) is not None


_ADDRESS = re.compile(r"://([^\s\"'<>]*?)(?=://|[\s\"'<>]|$)")
_PORT = re.compile(r"[^/@:]*(?::\d+)?(?:/|$)")


def _of_accounts(text: str) -> Iterator[Span]:
    """Find accounts in URLs; a password may contain an unencoded slash."""
    for found in _ADDRESS.finditer(text):
        rest = found[1]
        authority = rest.partition("/")[0]
        place = (rest if _PORT.match(rest) is None else authority).rfind("@")
        place = max(place, authority.rfind("@"))
        if place >= 0 and not is_harmless(rest[:place]):
            yield found.start(1), found.start(1) + place


# Names with values.

_SECRET_WORDS = (
    r"[a-z]*(?:passwd|passphrase|passcode|pwd|pw)"
    r"|(?:(?:db|user|admin|root|bind|sql|my|pg|ssh|http|proxy|key|store|trust|smtp|mail|ftp|ldap"
    r"|auth|login|redis|mongo)?pass)"
    r"|pin|dsn|sas|sig|signature|cookie|bearer|jaas|credentials?|secrets?|authorization"
    r"|(?:auth|oauth|access|api|id|refresh|session|security|user|bot|private)?tokens?"
)
_KEYS = (
    r"(?:shared ?access|account|access|api|private|secret|encryption|master|storage|subscription"
    r"|functions|signing|shared|service|deploy|app|application) ?key"
)
_SECRET_NAME = re.compile(rf"\b(?:{_SECRET_WORDS}|{_KEYS})\b|password|secret|shared ?access")
_NOT_ITSELF = re.compile(
    r"^(?:max|min|num|use|enable|is|has)\b|\b(?:count|size|timeout|interval|refresh|expiry|ttl"
    r"|enabled|type|class|provider|format|length)$"
)
_NOT_IN_TEXTS = re.compile(
    r"^(?:pass|pin|dsn|jaas|tokens|bearer|authorization|basic)$"
    r"|\b(?:name|names|url|uri|endpoint|file|path|policy|column|field|header|version|prefix"
    r"|expires|expired|error|errors|index|mode|only|based|check|manager|store|scope|count)$"
)
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")


def is_secret_name(name: str) -> bool:
    """Return whether a value of this name is a secret, however short."""
    words = _words(name)
    return _SECRET_NAME.search(words) is not None and _NOT_ITSELF.search(words) is None


def _words(name: str) -> str:
    return " ".join(_WORDS.findall(name)).lower()


_HEAD = re.compile(
    r"(?<![\w.\-])(?P<dashes>-*)(?P<name>[A-Za-z_][\w.\-]*)"
    r"(?P<close>\\*[\"'`]?\]?)(?P<sep>\s*(?:=>|:=|==?|:(?!:)|%3[dD])\s*|[ \t]+)"
)
_VALUE = re.compile(
    r"[bru]?\\*\"\\*\"|[bru]?''"
    r"|[bru]?\"(?:\\.|[^\"\\])+\"|[bru]?'(?:\\.|''|[^'\\])+'"
    r"|[bru]?\\+\"(?:(?!\\+\").)+\\+\"|[bru]?\\+'(?:(?!\\+').)+\\+'"
    r"|\{[^{}\n]*\}|[^\s\"'&;,)\]}\\]+",
    re.DOTALL,
)


def _of_pairs(text: str) -> Iterator[Span]:
    """Find values of names that denote secrets."""
    at = 0
    while (head := _HEAD.search(text, at)) is not None:
        # The candidate value may be the name of the next pair.
        at = head.end("name")
        name = head["name"]
        if not is_secret_name(name) or _NOT_IN_TEXTS.search(_words(name)) is not None:
            continue
        if head["sep"].strip() in _QUOTED_AFTER and not _QUOTE.match(text, head.end()):
            continue
        value = _VALUE.match(text, head.end())
        if value is None or is_harmless(value[0]) or _TYPE.match(value[0]):
            continue
        if _words(name).endswith("tokens") and _COUNT.fullmatch(value[0]):
            continue
        if _is_given(head, value[0]):
            yield value.span()
            at = value.end()


_TYPE = re.compile(
    r"(?:(?:tinyint|smallint|int|integer|bigint|long|short|byte|float|double|real|decimal|numeric"
    r"|string|char|varchar|boolean|binary|date|timestamp(?:_ntz|_ltz)?|interval|void|variant)>*$"
    r"|(?:decimal|numeric|char|varchar)\(\d+$|(?:array|map|struct)<[a-z])",
    re.IGNORECASE,
)
"""A Spark type, or its beginning."""

_COUNT = re.compile(r"([\"']?)-?[\d_]*\.?\d+%?\1")


_QUOTED_AFTER = ("=>", ":=", "==")
"""Separators that also precede things other than values, unless quoted."""

_QUOTE = re.compile(r"[bru]?\\*[\"']")


def _is_given(head: re.Match[str], value: str) -> bool:
    """Return whether a value is one, rather than a word of a sentence."""
    sep, is_quoted = head["sep"].strip(), value.lstrip("bru\\")[:1] in ("'", '"')
    if sep in ("=", "%3D", "%3d") or (sep == ":" and head["close"]):
        return True
    if sep in _QUOTED_AFTER:
        return True
    if not (sep == ":" or is_quoted or head["dashes"] == "--"):
        return False
    # It may be too long and too mixed for a word or a number.
    bare = value.strip("bru\\\"'")
    has_digit = any(map(str.isdigit, bare))
    return (len(bare) >= 8 and has_digit and not bare.isdigit()) or len(bare) >= 20
