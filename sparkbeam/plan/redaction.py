"""Takes what nobody is to see out of texts: plans, explanations, logs, errors.

What is secret is known from the options of a pipeline's sources and sinks, and of the session. A
text may hold it as it is, or as a URL, JSON, Python or HTML writes it, in whatever mixture.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import unquote

from sparkbeam.arguments import shortened
from sparkbeam.plan.model import Plan
from sparkbeam.plan.sparkio import READ_URN, ReadSpec, WriteSpec

_HIDDEN = "***"
_MOST_OF_URL = 100
_SHORT = 6
_LINE = 20
_LONG = 100
_HEAD = 40
_SHORTEST_OF_ADDRESS = 4
_HARMLESS = frozenset(["", "none", "null", "true", "false", "earliest", "latest", _HIDDEN])


class Redaction:
    """Takes secrets out of texts.

    Beside those that it is given, it takes out what looks like one anywhere: the account in a
    URL, the token of an ``Authorization``, the value behind ``password=`` and its like.

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
        """For the texts that a run of a plan gives; ``more`` are further options."""
        options = (option for spec in _specs(plan) for option in spec.options)
        return cls((*options, *more), settings)

    def __call__(self, text: str) -> str:
        """The text with ``***`` in the place of each secret."""
        if self._known is not None:
            text = self._known.sub(_HIDDEN, text)
        for pattern in (_ACCOUNT, _AUTHORIZATION, _ASSIGNED):
            text = pattern.sub(_hide, text)
        return text

    def finds(self, text: str) -> bool:
        """Whether there is a secret in a text."""
        return self(text) != text


def shown_url(url: str) -> str:
    """A URL as it may be shown: without its account and its parameters, and not too long."""
    address = re.split(r"[;?#]|%3[bB]", url, maxsplit=1)[0]
    return shortened(Redaction([("address", url)])(address), _MOST_OF_URL)


_OF_SECRET = (
    r"pass(?:word|wd|phrase|code)?|pwd|pin|dsn|sas|sig|signature|cookie|bearer|jaas"
    r"|credentials?|secrets?|tokens?|authorization"
)
_KEYS = r"(?:shared ?access|account|access|api|private|secret|encryption|master|storage) ?key"
_SECRET_NAME = re.compile(rf"\b(?:{_OF_SECRET}|{_KEYS})\b|password|secret|shared ?access")
_ADDRESS_NAME = re.compile(
    r"pass|pwd|secret|token|key|credential|auth|jaas|signature|sas\b|account|user|url|uri"
    r"|connection|servers",
    re.IGNORECASE,
)
_NOT_ITSELF = re.compile(
    r"^(?:max|min|num|use|enable|is|has)\b|\b(?:count|size|timeout|interval|refresh|expiry|ttl"
    r"|enabled|type|class|provider|format|length)$"
)
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")

_ASSIGNMENT = re.compile(
    r"""["']?([A-Za-z][\w.\-]*)["']?\s*[=:]\s*("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[^;&?,\s]+)"""
)
_ACCOUNT = re.compile(r"(://)([^/\s@]*(?:@[^/\s@]*)*)(?=@)")
_AUTHORIZATION = re.compile(
    r"((?:\bauthorization[\"']?\s*[:=]\s*[\"']?\w+|\b(?:bearer|basic|digest))(?:\s|%20|\+)+)"
    r"((?=[^\s\"',;]*[\d=])[\w.~+/=%-]{6,})",
    re.IGNORECASE,
)
_ASSIGNED = re.compile(
    r"((?<![A-Za-z])(?:sig|signature|password|passwd|passphrase|pwd|secret|client_?secret|token"
    r"|access_?token|id_?token|refresh_?token|sas|shared_?access_?(?:key|signature)|account_?key"
    r"|secret_?key|access_?key|api_?key|cookie)"
    r"(?:[\"']\s*[:=]|\s*(?:=(?![=>])|%3D))\s*)"
    r"""("(?:\\.|[^"\\])+"|'(?:\\.|[^'\\])+'|[^\s"'&;,)\]}]+)""",
    re.IGNORECASE,
)


def _secrets(name: str, value: str, *, addresses: bool = True) -> Iterator[str]:
    """The parts of an option's value that nobody is to see."""
    if _is_of_secret(name):
        yield from _worth_hiding(value, 1)
    elif addresses and _ADDRESS_NAME.search(name):
        yield from _address(value)
    for key, inner in _ASSIGNMENT.findall(value):
        inner = inner.strip("\"'")
        if _is_of_secret(key):
            yield from _worth_hiding(inner, 1)
        elif addresses and _ADDRESS_NAME.search(key):
            yield from _address(inner)
        if "=" in inner:  # A connection string, for one, may be a password.
            yield from _secrets("", inner, addresses=addresses)
    for _, account in _ACCOUNT.findall(value):
        yield from _address(account)
        yield from _worth_hiding(account.partition(":")[2], 1)
    for _, token in _AUTHORIZATION.findall(value):
        yield from _worth_hiding(token, 1)


def _is_of_secret(name: str) -> bool:
    """Whether the value of what has this name is a secret, however short it is."""
    words = " ".join(_WORDS.findall(name)).lower()
    return _SECRET_NAME.search(words) is not None and _NOT_ITSELF.search(words) is None


def _address(text: str) -> Iterator[str]:
    """What may be a secret; a number or a short word more likely is none."""
    if not text.isdigit():
        yield from _worth_hiding(text, _SHORTEST_OF_ADDRESS)


def _worth_hiding(text: str, shortest: int) -> Iterator[str]:
    for form in {text, unquote(text)}:
        if len(form) >= shortest and form.lower() not in _HARMLESS:
            yield form


def _parts(secret: str) -> Iterator[str]:
    """A secret, or the lines of one that is as long as a key in a file."""
    if len(secret) <= _LONG:
        yield secret
        return
    for line in re.split(r"\s+|\\n", secret):
        if len(line) >= _LINE:
            yield line[:_HEAD]


_BEFORE = (
    r"(?:(?<![A-Za-z0-9])|(?<=%[0-9A-Fa-f]{2})|(?<=\\[abfnrtv])|(?<=\\x[0-9A-Fa-f]{2})"
    r"|(?<=\\u[0-9A-Fa-f]{4}))"
)
_AFTER = r"(?![A-Za-z0-9])"
_ESCAPES = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f"}
_ENTITIES = {"&": "amp", '"': "quot", "'": "apos", "<": "lt", ">": "gt"}


def _pattern(secret: str) -> str:
    """Finds a secret in whatever way it is written; a short one only where it stands alone."""
    found = "".join(map(_character, secret))
    if len(secret) == _HEAD:  # Perhaps the beginning of a line.
        return rf"{found}[\w+/=%.~-]*"
    if len(secret) < _SHORT or secret.isdigit():
        return f"{_BEFORE if secret[0].isalnum() else ''}{found}{_AFTER}"
    return found


def _character(character: str) -> str:
    """Finds a character: as it is, percent-encoded, escaped once or more often, as an entity."""
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
    """A pattern of hexadecimal digits, in capitals or not."""
    return f"(?i:{pattern})"


def _hide(found: re.Match[str]) -> str:
    if found.group(2).strip("\"'").lower() in _HARMLESS:
        return found.group()
    return found.group(1) + _HIDDEN


def _specs(plan: Plan) -> Iterator[Any]:
    for source in plan.sources:
        if source.urn == READ_URN:
            yield ReadSpec.unpack(source.payload)
    for sink in plan.sinks:
        yield WriteSpec.unpack(sink.payload)
