"""Redaction of secrets in texts: plans, explanations, logs, errors.

Secrets are known from the options of a pipeline's sources and sinks, and of the session. A text
may hold a secret verbatim, or as a URL, JSON, Python or HTML writes it, in any mixture.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from html import escape
from urllib.parse import quote, quote_plus, unquote

from sparkbeam.common.display_text import shortened
from sparkbeam.common.secret_patterns import (
    HARMLESS,
    HIDDEN,
    hidden,
    is_scheme,
    is_secret_name,
    spans,
)
from sparkbeam.plan.model import Plan

_MOST_OF_URL = 100
_SHORT = 6
_LINE = 20
_LONG = 100
_HEAD = 40
_SHORTEST_OF_ADDRESS = 4


class Redaction:
    """Redaction of secrets in texts.

    Beside those that it is given, it takes out what looks like one anywhere, as
    :func:`.secrecy.hidden` does.

    Args:
        options: of sources and sinks. What has a name that tells of a secret or of an address
            counts as secret, and so do passwords and tokens within the value of any.
        settings: of the session, of which only what has the name of a secret is one.
    """

    def __init__(
        self,
        options: Iterable[tuple[str, str]] = (),
        settings: Iterable[tuple[str, str]] = (),
    ) -> None:
        whole = {secret for name, value in options for secret in _secrets(name, value)}
        for name, value in settings:
            whole |= set(_secrets(name, value, addresses=False))
        long = {text for secret in whole if len(secret) > _LONG for text in _written(secret)}
        self._long = tuple(sorted(long, key=lambda text: (-len(text), text)))
        found = {part for secret in whole for part in _parts(secret)}
        longest_first = sorted(found, key=lambda secret: (-len(secret), secret))
        self._known = re.compile("|".join(map(_pattern, longest_first))) if found else None

    @classmethod
    def of(
        cls,
        plan: Plan,
        settings: Iterable[tuple[str, str]] = (),
        more: Iterable[tuple[str, str]] = (),
    ) -> "Redaction":
        """Create the redaction for the texts of a plan's run; ``more`` are further options."""
        specs = (*plan.spark_reads.values(), *(sink.write for sink in plan.sinks))
        options = (option for spec in specs for option in spec.options)
        return cls((*options, *more), settings)

    def __call__(self, text: str) -> str:
        """Return the text with ``***`` in the place of each secret."""
        for secret in self._long:
            text = text.replace(secret, HIDDEN)
        if self._known is not None:
            text = self._known.sub(HIDDEN, text)
        return hidden(text)


def shown_url(url: str) -> str:
    """Return a URL as it may be shown: without its account and its parameters, and not too long."""
    address = re.split(r"[;?#]|%3[bB]", url, maxsplit=1)[0]
    return shortened(address, _MOST_OF_URL, Redaction([("address", url)]))


def redacted(plan: Plan, redaction: Callable[[str], str]) -> Plan:
    """Return a plan with labels that may be shown."""
    return replace(
        plan,
        stages=tuple(
            replace(stage, labels=tuple(map(redaction, stage.labels))) for stage in plan.stages
        ),
    )


_ADDRESS_NAME = re.compile(
    r"pass|pwd|secret|token|key|credential|auth|jaas|signature|sas\b|account|user|url|uri"
    r"|connection|servers",
    re.IGNORECASE,
)
_ASSIGNMENT = re.compile(
    r"""["']?([A-Za-z][\w.\-]*)["']?\s*[=:]\s*("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[^;&?,\s]+)"""
)
_OF_PAIR = re.compile(
    r"dsn|auth|credential|login|user.?info|user.?pass|pass|pwd|secret|token", re.IGNORECASE
)
_PAIR = re.compile(r"[^:/@\s;,&=]*[:/](?!/)(.+)", re.DOTALL)
_SEGMENT = 8


def _secrets(name: str, value: str, *, addresses: bool = True) -> Iterator[str]:
    """Yield the secret parts of an option's value."""
    if is_secret_name(name):
        yield from _worth_hiding(value, 1)
    elif addresses and _ADDRESS_NAME.search(name):
        yield from _address(value)
    if _OF_PAIR.search(name):
        yield from _of_pair(value)
    for key, inner in _ASSIGNMENT.findall(value):
        inner = inner.strip("\"'")
        if is_secret_name(key) and not is_scheme(inner):
            yield from _worth_hiding(inner, 1)
        elif addresses and _ADDRESS_NAME.search(key):
            yield from _address(inner)
        if _OF_PAIR.search(key):
            yield from _of_pair(inner)
        if "=" in inner:  # A connection string, for one, may be a password.
            yield from _secrets("", inner, addresses=addresses)
    for start, end in spans(value):
        yield from _of_span(value[start:end], is_account=value[end : end + 1] == "@")


def _of_pair(value: str) -> Iterator[str]:
    """Yield the second part of a name and a password, alone or before the address of a database."""
    pair = _PAIR.fullmatch(value)
    if pair is not None and "://" not in value:
        before, at, _ = pair[1].rpartition("@")
        yield from _worth_hiding(before if at else pair[1], 1)


def _of_span(found: str, *, is_account: bool) -> Iterator[str]:
    """Yield the text that looks like a secret, and the parts of it that may stand alone."""
    found = re.sub(r"^[bru]?(\\*[\"'])(.*)\1$", r"\2", found, flags=re.DOTALL).strip("{}")
    if is_account:
        yield from _address(found)
        yield from _worth_hiding(found.partition(":")[2], 1)
        return
    yield from _worth_hiding(found, 1)
    for part in found.split("/"):
        if len(part) >= _SEGMENT:
            yield from _worth_hiding(part, _SEGMENT)


def _address(text: str) -> Iterator[str]:
    """Yield the text if it may be a secret; a number or a short word probably is none."""
    if not text.isdigit():
        yield from _worth_hiding(text, _SHORTEST_OF_ADDRESS)


def _worth_hiding(text: str, shortest: int) -> Iterator[str]:
    for form in {text, unquote(text)}:
        if len(form) >= shortest and form.lower() not in HARMLESS:
            yield form


def _parts(secret: str) -> Iterator[str]:
    """Yield a secret, or the lines of one that is as long as a key in a file."""
    if len(secret) <= _LONG:
        yield secret
        return
    for line in re.split(r"\s+|\\n", secret):
        if len(line) >= _LINE:
            yield line[:_HEAD]


def _written(secret: str) -> Iterator[str]:
    """Yield a long secret as a whole, in the ways in which it is most likely written."""
    in_json = [json.dumps(secret), json.dumps(secret, ensure_ascii=False)]
    written = [*in_json, repr(secret), ascii(secret), *map(json.dumps, in_json)]
    yield secret
    yield from (text[1:-1] for text in written)
    yield from (json.dumps(in_json[0][1:-1])[1:-1], escape(secret), escape(secret, quote=False))
    encoded = quote(secret, safe="", errors="replace")
    yield from (encoded, quote(secret, errors="replace"), quote_plus(secret, errors="replace"))
    yield quote(encoded, safe="")


_BEFORE = (
    r"(?:(?<![A-Za-z0-9])|(?<=%[0-9A-Fa-f]{2})|(?<=\\[abfnrtv])|(?<=\\x[0-9A-Fa-f]{2})"
    r"|(?<=\\u[0-9A-Fa-f]{4}))"
)
_AFTER = r"(?![A-Za-z0-9])"
_ESCAPES = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f"}
_ENTITIES = {"&": "amp", '"': "quot", "'": "apos", "<": "lt", ">": "gt"}


def _pattern(secret: str) -> str:
    """Return a pattern that finds a secret in any notation; a short one only if it stands alone."""
    found = "".join(map(_character, secret))
    if len(secret) == _HEAD:  # Perhaps the beginning of a line.
        return rf"{found}[\w+/=%.~-]*"
    if len(secret) < _SHORT or secret.isdigit():
        return f"{_BEFORE if secret[0].isalnum() else ''}{found}{_AFTER}"
    return found


def _character(character: str) -> str:
    """Return a pattern of a character: plain, percent-encoded, escaped repeatedly, as an entity."""
    encoded = character.encode("utf-8", "surrogatepass")
    percent = "".join(f"%(?:25)*{octet:02X}" for octet in encoded)
    if character.isascii() and character.isalnum():
        return f"(?:{character}|{_any_case(percent)})"
    units = character.encode("utf-16-be", "surrogatepass").hex()
    escaped = "".join(rf"\\+u{units[at : at + 4]}" for at in range(0, len(units), 4))
    code = ord(character)
    octets = "".join(rf"\\+x{octet:02x}" for octet in encoded)
    forms = [
        rf"\\*{re.escape(character)}",
        _any_case(percent),
        _any_case(escaped),
        _any_case(octets),
        rf"\\+U{code:08x}",
        rf"&#(?:{code}|[xX]0*{code:x});",
    ]
    if code < 0x100:
        forms.append(_any_case(rf"\\+x{code:02x}"))
    if character in _ESCAPES:
        forms.append(rf"\\+{_ESCAPES[character]}")
    if character in _ENTITIES:
        forms.append(f"&{_ENTITIES[character]};")
    if character == " ":
        forms.append(r"\+")
    return f"(?:{'|'.join(forms)})"


def _any_case(pattern: str) -> str:
    """Return a pattern of hexadecimal digits, in capitals or not."""
    return f"(?i:{pattern})"
