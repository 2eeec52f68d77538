"""What the commands do with wrong arguments: a short message, and exit code 2."""

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from sparkbeam.common.arguments import is_path, shown
from sparkbeam.common.display_text import shortened
from sparkbeam.errors import ConfigurationError, SparkBeamError

_MOST = 500
"""The characters of a message; what it repeats of an argument may be of any length."""


class ShortErrors(click.Group):
    """A group whose errors, and those of its commands, are short whatever they repeat."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with _short():
            return super().make_context(*args, **kwargs)

    def invoke(self, context: click.Context) -> Any:
        with _short():
            return super().invoke(context)


@contextmanager
def _short() -> Iterator[None]:
    try:
        yield
    except click.UsageError as error:
        if len(error.format_message()) <= _MOST:
            raise
        raise click.UsageError(shortened(error.format_message(), _MOST), error.ctx) from None
    except click.ClickException as error:
        if len(error.format_message()) <= _MOST:
            raise
        raise click.ClickException(shortened(error.format_message(), _MOST)) from None


def usage_error(error: SparkBeamError) -> click.ClickException:
    """An error of ours on the command line: exit code 2 where an argument or an option is wrong."""
    text = " ".join(str(error).split())
    if isinstance(error, ConfigurationError):
        return click.UsageError(text)
    return click.ClickException(text)


class Number(click.FloatRange):
    """A number within limits; neither 'nan' nor 'inf'."""

    def convert(self, value: Any, *args: Any) -> float:
        found: float = super().convert(value, *args)
        if not math.isfinite(found):
            self.fail(f"{shown(value)} is no number to count with.", *args)
        return found


class File(click.Path):
    """The path of a file; what no file system can take is an error, too."""

    def convert(self, value: Any, *args: Any) -> Any:
        if not is_path(os.fspath(value)):
            self.fail(f"{shown(value)} cannot be the name of a file.", *args)
        return super().convert(value, *args)
