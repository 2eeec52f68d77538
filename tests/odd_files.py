"""Contents of files that nobody expects, and commands that have to say in words what is wrong."""

from typing import Any

from command import command

ODD_CONTENTS: dict[str, bytes] = {
    "nothing": b"",
    "a list": b"[]",
    "null": b"null",
    "a number": b"1",
    "a text": b'""',
    "an object": b"{}",
    "no number": b'{"number": NaN, "written": 1e999, "micro_batch": -Infinity}',
    "half of an object": b'{"number": 1, "schema": 3, "finished"',
    "deeply nested lists": b"[" * 100_000,
    "deeply nested objects": b'{"a":' * 3_000 + b"1" + b"}" * 3_000,
    "no UTF-8": b"\xff\xfe\x00{}",
    "many digits": b"9" * 5_000,
    "an object with many digits": b'{"number": 1%s, "schema": 1%s}' % (b"9" * 5_000, b"9" * 5_000),
}

ODD_VALUES: list[Any] = [
    *(None, [], {}, "", "x\0\x1b[2J", -1, 1 << 70, 1.5, True, 1e300),
    *([[["x"]]], {"a": [[]]}, {"a": {"b": {}}}, "[/red]"),
]


def says_what_is_wrong(*arguments: str) -> None:
    """Runs a command, which may fail but has to say in words why."""
    found = command(*arguments)
    assert found.exception is None or isinstance(found.exception, SystemExit), found.exception
    assert "Traceback" not in found.output
    assert found.exit_code in (0, 1, 2)
    assert "\x1b" not in found.output
