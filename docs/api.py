"""Writes docs/api.md, what a program may rely on, from the code; a test compares the two.

Run with ``python docs/api.py`` after a change of a public name, its arguments or the first line
of its description.
"""

import argparse
import enum
import inspect
import re
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from apache_beam.coders.coders import Coder
from apache_beam.transforms.ptransform import PTransform
from apache_beam.transforms.userstate import StateSpec

import pyspark_eventhubs
import pyspark_eventhubs.testing
import sparkbeam.coders
import sparkbeam.hooks
import sparkbeam.io
import sparkbeam.state
import sparkbeam_eventhubs
import sparkbeam_sql
from sparkbeam.cli.commands import main

PAGE = Path(__file__).with_suffix(".md")

_HEAD = """\
# Public names
What is listed here is public: a change that breaks programs is told under *Changed* of the
[changelog](../CHANGELOG.md) and comes with a new minor version before 1.0, with a major one
afterwards. Modules, classes and attributes that are not listed, and names that begin with an
underscore, may change at any time.

`python docs/api.py` makes this page from the code. Beam's own transforms and options are public as
Beam says; [support.md](support.md) tells which of them run.
"""

_MODULES = {
    "sparkbeam": sparkbeam,
    "sparkbeam.io": sparkbeam.io,
    "sparkbeam.coders": sparkbeam.coders,
    "sparkbeam.state": sparkbeam.state,
    "sparkbeam_eventhubs": sparkbeam_eventhubs,
    "pyspark_eventhubs": pyspark_eventhubs,
    "sparkbeam.hooks": sparkbeam.hooks,
    "pyspark_eventhubs.testing": pyspark_eventhubs.testing,
    "sparkbeam_sql": sparkbeam_sql,
}
_BEAMS = "Beam's hook"
"""How descriptions of methods begin that only Beam calls."""


def page() -> str:
    """The whole page."""
    parts = [_HEAD]
    for title, module in _MODULES.items():
        names = [name for name in module.__all__ if not name.startswith("_")]
        parts.append("\n".join([f"## `{title}`", *(_entry(n, getattr(module, n)) for n in names)]))
    parts.append("\n".join(["## Pipeline options", *_options()]))
    parts.append("\n".join(["## Commands", *_commands(main, "sparkbeam")]))
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _entry(name: str, what: Any) -> str:
    """A name with what it is called with, its description, and below it its members."""
    if isinstance(what, types.UnionType):
        return f"- **`{name}`** = `{' | '.join(kind.__name__ for kind in what.__args__)}`"
    if isinstance(what, type) and what.__name__ != name:
        return f"- **`{name}`** = `{what.__name__}`"
    is_called = not isinstance(what, type) or _is_made_by_users(what)
    called = f"{name}{_signature(what)}" if is_called else name
    lines = [f"- **`{called}`**: {_first_line(what)}"]
    if isinstance(what, type):
        lines += [f"  - {member}" for member in _members(what)]
    return "\n".join(lines)


def _is_made_by_users(kind: type) -> bool:
    return kind is sparkbeam.SparkRunner or issubclass(kind, PTransform | Coder | StateSpec)


def _members(kind: type) -> Iterator[str]:
    if issubclass(kind, enum.Enum):
        yield from (f"`{member.name}`" for member in kind)
        return
    attributes = _attributes(kind)
    yield from (f"`{name}`: {text}" for name, text in attributes.items())
    for name, member in vars(kind).items():
        line = "" if name.startswith("_") or name in attributes else _first_line(member)
        if line and not line.startswith(_BEAMS):
            yield f"`{name}{_signature(member) if callable(member) else ''}`: {line}"


def _attributes(kind: type) -> dict[str, str]:
    """Those that the description of a class lists, with the first sentence on each."""
    _, _, listed = inspect.cleandoc(kind.__doc__ or "").partition("\nAttributes:\n")
    entries = re.findall(r"^ {4}(\w+): (.+(?:\n {5,}.+)*)", listed, flags=re.MULTILINE)
    return {
        name: re.split(r"[.;](?:\s|$)", text)[0].replace("\n       ", "") for name, text in entries
    }


def _signature(what: Any) -> str:
    """What it is called with: names and defaults."""
    given = inspect.signature(what)
    bare = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for name, parameter in given.parameters.items()
        if name != "self"
    ]
    return str(inspect.Signature(bare))


def _first_line(what: Any) -> str:
    """Of its own description; nothing where it has none."""
    lines = (getattr(what, "__doc__", None) or "").strip().splitlines()
    return re.sub(r":\w+:(?=`)|`(?=`)", "", lines[0]) if lines else ""


def _options() -> Iterator[str]:
    parser = argparse.ArgumentParser(add_help=False)
    sparkbeam.SparkBeamOptions._add_argparse_args(parser)
    for action in parser._actions:
        yield f"- **`{action.option_strings[0]}`**: {action.help}"


def _commands(group: click.Group, path: str) -> Iterator[str]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield f"- **`{path} {name}`**: {command.get_short_help_str(200)}"
        if isinstance(command, click.Group):
            yield from (f"  {line}" for line in _commands(command, f"{path} {name}"))


if __name__ == "__main__":
    PAGE.write_text(page())
