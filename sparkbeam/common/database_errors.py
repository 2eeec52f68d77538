"""Errors of databases, without values of rows and parts of statements."""

import re

_OF_DATABASE = re.compile(r"\bjava\.sql\.|\b(?!Spark)\w*SQL\w*Exception\b")
_BLOCKS = re.compile(r"(?=\n(?:[ \t]+at |Caused by: |[ \t]*\.\.\. \d+ more))")
"""Beginnings of lines of a Java stack trace, between which a message may have line ends."""

_STATEMENT = re.compile(r"\bBatch entry \d+ .* was aborted: ?", re.DOTALL)
_DETAILS = re.compile(
    r"\s+(?:Detail|DETAIL|Where|CONTEXT|LINE \d+|Query is|QUERY|Internal Query): .*", re.DOTALL
)
_ROW = re.compile(r"(?<=key value is )\(.*\)", re.DOTALL)
_NAMES = (
    "column|relation|constraint|table|table/view|view|index|key|object|database|schema|type|field"
    "|function|sequence|role|user"
)
_NAME = r"""(?:"[^"]*"(?:\."[^"]*")*|'[^']*')"""
_QUOTED = re.compile(
    rf"(?P<name>\b(?:{_NAMES}) {_NAME})"
    r"|(?<![\w'])'.*'(?= for key '[^']*')"
    r"|\".*\"(?!\w)|(?<![\w'])'.*'(?!\w)",
    re.DOTALL | re.IGNORECASE,
)


def is_of_database(text: str) -> bool:
    """Return whether the text of a Java error is about one of JDBC."""
    return _OF_DATABASE.search(text) is not None


def without_values(text: str) -> str:
    """Replace what a database quotes in an error, unless it is a name, by ``…``.

    Servers repeat the values of a row that they refuse, and parts of a statement with an error.
    """
    return "".join(map(_without_values, _BLOCKS.split(text)))


def _without_values(message: str) -> str:
    message = _DETAILS.sub("", _STATEMENT.sub("", message))
    return _QUOTED.sub(lambda match: match["name"] or "'…'", _ROW.sub("(…)", message))
