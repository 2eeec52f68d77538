"""Recognition of secrets in text by the text before them.

Recognized forms: URLs with an account, HTTP headers, connection strings, command lines, JSON, YAML,
XML, properties, SQL, webhook paths, and tokens with a known prefix.
"""

import re
from collections.abc import Iterator

HIDDEN = "***"

Span = tuple[int, int]
"""Start and end of a secret."""

HARMLESS = frozenset(["", "none", "null", "nil", "true", "false", "earliest", "latest", HIDDEN])

_TELLING = re.compile(
    r"://|@tcp|@unix|@udp|hook|:oracle:|PRIVATE KEY|identified|login|curl|pass|pw|secret|token|key"
    r"|credential|auth|cookie|sig|sas|bearer|basic|digest|AKIA|ASIA|gh[a-z]_|glpat-|xox[a-z]-|eyJ|AIza|dapi"
    r"|sk[-_]|github_pat_|hf_|npm_|pypi-|SG\.",
    re.IGNORECASE,
)
"""Quick test: a text without a match has no secret of a known form."""


def hidden(text: str) -> str:
    """Replace everything that looks like a secret with ``***``."""
    found = [*spans(text)]
    if not found:
        return text
    parts, at = [], 0
    for start, end in _merged(found):
        parts += [text[at:start], HIDDEN]
        at = end
    return "".join(parts) + text[at:]


def spans(text: str) -> Iterator[Span]:
    """Find what looks like a secret; the spans may overlap."""
    if _TELLING.search(text) is None:
        return
    for pattern in _PLAIN:
        for found in pattern.finditer(text):
            if not is_harmless(found.group("value")):
                yield found.span("value")
    yield from _of_accounts(text)
    yield from _of_pairs(text)
    yield from _of_headers(text)
    yield from _of_webhooks(text)


def is_harmless(value: str) -> bool:
    """Return whether a value reveals nothing: a null or a placeholder."""
    bare = value.strip("\\\"'`")
    return bare.lower() in HARMLESS or _PLACEHOLDER.fullmatch(bare) is not None


_PLACEHOLDER = re.compile(r"\$\{?[A-Z_]+\}?|<[a-z_ -]*>?|\{[a-z_]*\}|%s|%\([a-z_]+\)s|\*+|\.{3}|…")

_IDENTIFIED = r"\bidentified\s+(?:with\s+\S+\s+)?(?:by|as)\s+(?:password\s+|values\s+)?"

_PLAIN = tuple(
    re.compile(pattern, re.IGNORECASE if insensitive else 0)
    for insensitive, pattern in (
        # A Go DSN, an Oracle address, arguments of Oracle's programs and of curl.
        (False, r"(?<![\w:/.-])[\w.-]+:(?P<value>[^\s@]{1,999})(?=@(?:tcp|unix|udp)\()"),
        (
            True,
            r"jdbc:oracle:\w+:[^\s@/]{0,99}/(?P<value>\"[^\"\n]{0,999}\"|[^\s@\"'][^\s@]{0,999})(?=@)",
        ),
        (
            True,
            r"\b(?:sqlplus|sqlldr|expdp|impdp|rman)\b[^\n]{0,200}?\s[\w$#]+/(?P<value>[^\s@/]+)",
        ),
        (True, r"\bcurl\b[^\n]{0,200}?\s-u\s*['\"]?[^\s:'\"]+:(?P<value>[^\s'\"]+)"),
        (True, r"--(?:proxy-)?user[ =]['\"]?[^\s:'\"]+:(?P<value>[^\s'\"]+)"),
        (True, r"\bsshpass\s+-p\s*(?P<value>'[^'\n]*'|\"[^\"\n]*\"|[^\s'\"]+)"),
        (True, r"\blogin\s+\S+\s+password\s+(?P<value>[^\s,;]+)"),
        # LDAP configuration; in a sentence a word follows.
        (
            True,
            r"\bbindpw\s+(?!(?:is|was|of|for|in|and|or|has|must|may|can)\b)(?P<value>[^\s,;'\"]+)",
        ),
        (True, r"\b(?:requirepass|masterauth)\s+(?P<value>\S+)"),
        (
            True,
            r"\b(?:password|passwd|passphrase|secret|token|key) (?:is|was):? "
            r"(?P<value>'[^'\n]+'|\"[^\"\n]+\")",
        ),
        # SQL; without quotes only in a statement that cannot be prose.
        (True, rf"{_IDENTIFIED}(?P<value>'(?:''|\\.|[^'\\])*'|\"[^\"]*\")"),
        (
            True,
            r"\b(?:(?:create|alter)\s+(?:user|role)|database\s+link)\b[^;]{0,200}?"
            rf"{_IDENTIFIED}(?P<value>[^\s;,'\"]+)",
        ),
        # A Telegram bot path, and tokens with a known prefix.
        (False, r"/bot\d{5,}:(?P<value>[\w-]{10,})"),
        (False, r"(?<![A-Za-z0-9])(?P<value>A(?:KI|SI)A[0-9A-Z]{16})(?![A-Za-z0-9])"),
        (
            False,
            r"(?<![\w-])(?P<value>gh[a-z]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{15,}"
            r"|xox[a-z]-[\w-]{8,}|sk_(?:live|test)_[\w-]{16,}|sk-(?:or-v1-)?[0-9a-f]{32,}"
            r"|sk-(?=[\w-]*\d)(?=[\w-]*[A-Z])[\w-]{16,}|AIza[\w-]{30,}"
            r"|dapi[0-9a-f]{32}|SG\.[\w-]{16,}\.[\w-]{16,}|hf_[A-Za-z0-9]{20,}"
            r"|npm_[A-Za-z0-9]{20,}|pypi-AgE[\w-]{16,})",
        ),
        (False, r"(?P<value>\beyJ[\w-]{5,}\.eyJ[\w-]{5,}(?:\.[\w-]*)?)"),
        (
            False,
            r"-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----(?P<value>(?:[^-]|-(?!----))+)",
        ),
        # XML, and Hadoop properties.
        (
            True,
            r"<(?P<tag>[\w.:-]*(?:password|passwd|secret|token|api-?key))>(?P<value>[^<]+)</",
        ),
        (
            True,
            r"<name>[^<]{0,200}?(?:password|passwd|secret|token|account\.?key|access\.?key|sas)[^<]{0,200}"
            r"</name>\s*<value>(?P<value>[^<]+)</value>",
        ),
    )
)

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
        if not _tells(head["name"]):
            continue
        if head["sep"].strip() in _QUOTED_AFTER and not _QUOTE.match(text, head.end()):
            continue
        value = _VALUE.match(text, head.end())
        if value is None or is_harmless(value[0]) or _is_no_secret(head["name"], value[0]):
            continue
        if _is_given(head, value):
            yield value.span()
            at = value.end()


def _tells(name: str) -> bool:
    words = _words(name)
    return (
        _SECRET_NAME.search(words) is not None
        and _NOT_ITSELF.search(words) is None
        and _NOT_IN_TEXTS.search(words) is None
    ) or words in _OF_PAIRS


def _is_no_secret(name: str, value: str) -> bool:
    """Return whether the value is a column type or a count of tokens."""
    if _TYPE.match(value) is not None:
        return True
    return _words(name).endswith("tokens") and _COUNT.fullmatch(value) is not None


_TYPE = re.compile(
    r"(?:(?:tinyint|smallint|int|integer|bigint|long|short|byte|float|double|real|decimal|numeric"
    r"|string|char|varchar|boolean|binary|date|timestamp(?:_ntz|_ltz)?|interval|void|variant)>*$"
    r"|(?:decimal|numeric|char|varchar)\(\d+$|(?:array|map|struct)<[a-z])",
    re.IGNORECASE,
)
"""A Spark type, or its beginning."""

_COUNT = re.compile(r"([\"']?)-?[\d_]*\.?\d+%?\1")


def _is_given(head: re.Match[str], found: re.Match[str]) -> bool:
    """Return whether a value is one, rather than a word of a sentence."""
    name, sep, value = _words(head["name"]), head["sep"].strip(), found[0]
    is_quoted = value.lstrip("bru\\")[:1] in ("'", '"') and len(value) > 2
    if name in _OF_PAIRS or name.endswith(("credential", "credentials")):
        return sep != "" and (":" in value or any(map(str.isdigit, value)))
    if sep in ("=", "%3D", "%3d") or (sep == ":" and head["close"]):
        return True
    is_password = name.endswith(_OF_PASSWORDS)
    if sep == "" and head["dashes"] == "--":
        return not value.startswith("-") and _is_no_word(value)
    if sep == "":
        return is_password and (is_quoted or _is_setting(head, found))
    if is_quoted:
        return sep in _QUOTED_AFTER or is_password or _is_like_token(value)
    return not value.startswith("//") and _is_in_line(name, found, is_password=is_password)


def _is_in_line(name: str, found: re.Match[str], *, is_password: bool) -> bool:
    """Return whether the text after a name and a colon is its value."""
    if name.endswith("cookie"):
        return "=" in found[0]
    if _is_like_token(found[0]):
        return True
    if is_password:
        return _is_no_word(found[0]) and (_ends(found) or not found[0].isalpha())
    return name.endswith("key") and _ends(found) and _is_no_word(found[0])


_QUOTED_AFTER = ("=>", ":=", "==")
"""Separators that also precede things other than values, unless quoted."""

_QUOTE = re.compile(r"[bru]?\\*[\"']")
_OF_PAIRS = ("auth", "basic auth")
_OF_PASSWORDS = (
    "password", "passwd", "passphrase", "passcode", "pwd", "pw", "pass", "secret", "secret key",
    "access key", "account key",
)  # fmt: skip


def _is_setting(head: re.Match[str], found: re.Match[str]) -> bool:
    """Return whether a name and a value separated by a space fill a line."""
    begin = max(0, head.start() - _INDENT)
    before = head.string[begin : head.start()].rpartition("\n")[2]
    is_word = found[0].isalpha() and not head["name"].lower().endswith("pw")
    return not before.strip() and _ends(found) and not is_word and _is_no_word(found[0])


def _ends(found: re.Match[str]) -> bool:
    """Return whether a value ends its line or the next name follows."""
    return _END.match(found.string, found.end()) is not None


_END = re.compile(r"[ \t]*(?:$|[\r\n,;}\])\"'])")
_INDENT = 40


def _is_like_token(value: str) -> bool:
    """Return whether a value is too long and too mixed for a word or a number."""
    bare = value.strip("bru\\\"'")
    has_digit = any(map(str.isdigit, bare))
    return (len(bare) >= 8 and has_digit and not bare.isdigit()) or len(bare) >= 20


def _is_no_word(value: str) -> bool:
    return value.strip("\\\"'`.!?").lower() not in _SENTENCE


_SENTENCE = frozenset(
    re.split(
        r"\s+",
        "a an and any are as at be been by can cannot could did does empty expected expired failed "
        "for from given has have if in incorrect instead invalid is it its mandatory may mismatch "
        "missing must needed needs neither never no nor not of on only option optional or please "
        "required should so that the their then this to together too unknown unset used wants was "
        "were when which will with without wrong you your str string bytes int float bool object "
        "text",
    )
)


# HTTP headers.

_SCHEMES = (
    r"bearer|basic|digest|token|api-?key|key|negotiate|ntlm|oauth|hawk|aws4-hmac-sha256|aws"
    r"|sharedkey(?:lite)?|sharedaccesssignature|googlelogin|splunk|snowflake|geniekey|bot|ssws"
)
_GAP = r"(?:\s|%20|\+)+"
_LISTED = r"\w+=(?:\\*\"[^\"\n]*\"|[^\s,\"'&;]+)(?:[,&;]\s*\w+=(?:\\*\"[^\"\n]*\"|[^\s,\"'&;]+))*"
_TOKEN = r"[\w.~+/=%:-]+"
_HEADER = re.compile(
    rf"\bauthorization\\*[\"']?\s*[:=]\s*\\*[\"']?(?:(?P<known>{_SCHEMES}){_GAP}"
    rf"(?P<value>{_LISTED}|{_TOKEN})|(?P<scheme>[\w-]+){_GAP}(?P<other>{_TOKEN})"
    rf"|(?P<alone>{_TOKEN}))",
    re.IGNORECASE,
)
_SCHEME = re.compile(
    rf"\b(?:bearer|basic|digest|negotiate|apikey|sharedkey){_GAP}"
    r"(?P<value>(?=[^\s\"',;]{0,99}[\d=])[\w.~+/=%-]{6,}|[\w.~+/=%-]{20,})",
    re.IGNORECASE,
)
_COOKIE = re.compile(
    r"\b(?:set-)?cookie\\*[\"']?\s*:\s*\\*[\"']?(?P<value>[^\s=\"';]+=[^\r\n\"']+)", re.IGNORECASE
)


def is_scheme(word: str) -> bool:
    """Return whether a word is an ``Authorization`` scheme."""
    return re.fullmatch(_SCHEMES, word, re.IGNORECASE) is not None


def _of_headers(text: str) -> Iterator[Span]:
    for found in _HEADER.finditer(text):
        if found["known"] and _is_no_word(found["value"]) and not is_harmless(found["value"]):
            yield found.span("value")
        elif found["other"] and _is_long(found["other"]):
            yield found.span("other")
        elif found["alone"] and _is_long(found["alone"]) and not is_scheme(found["alone"]):
            yield found.span("alone")
    for pattern in (_SCHEME, _COOKIE):
        for found in pattern.finditer(text):
            yield found.span("value")


def _is_long(value: str) -> bool:
    """Return whether a value is too long or too mixed for a word."""
    return (len(value) >= 6 and any(c.isdigit() or c == "=" for c in value)) or len(value) >= 16


# Webhooks, whose path is the secret.

_HOOK_HOST = re.compile(
    r"https?://(?:[\w-]+\.){0,9}?[\w-]{0,40}?hooks?(?:\.[\w-]+){1,9}(?::\d+)?/(?P<value>[^\s\"'<>?#]+)",
    re.IGNORECASE,
)
_HOOK_PATH = re.compile(
    r"https?://[^\s/\"'<>]+/(?:[^\s/\"'<>?#]+/)*?(?:webhooks?|webhookb2|hooks?|incomingwebhook)/"
    r"(?P<value>[^\s\"'<>?#]+)",
    re.IGNORECASE,
)


def _of_webhooks(text: str) -> Iterator[Span]:
    for found in _HOOK_HOST.finditer(text):
        yield found.span("value")
    for found in _HOOK_PATH.finditer(text):
        if any(_is_like_token(part) for part in found["value"].split("/")):
            yield found.span("value")


def _merged(found: list[Span]) -> Iterator[Span]:
    """Merge overlapping spans, in order."""
    begun, ended = -1, -1
    for start, end in sorted(found):
        if start > ended:
            if begun >= 0:
                yield begun, ended
            begun, ended = start, end
        ended = max(ended, end)
    yield begun, ended
