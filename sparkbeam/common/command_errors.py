"""Usage errors of the commands: a short message and exit code 2."""

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from sparkbeam.common.arguments import is_path, shown
from sparkbeam.common.display_text import shortened
from sparkbeam.errors import ConfigurationError, PySparkMissing, SparkBeamError

_MOST = 500
"""Maximum length of a message, which may quote arguments of any length."""


class ShortErrors(click.Group):
    """A click group that shortens its errors and those of its commands."""

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
    except click.ClickException as error:
        is_help = type(error).__name__ == "NoArgsIsHelpError"  # Since click 8.2.
        if is_help or len(error.format_message()) <= _MOST:
            raise
        text = shortened(error.format_message(), _MOST)
        if isinstance(error, click.UsageError):
            raise click.UsageError(text, error.ctx) from None
        raise click.ClickException(text) from None
    except ModuleNotFoundError as error:
        if error.name != "pyspark":
            raise
        raise usage_error(PySparkMissing()) from None


def usage_error(error: SparkBeamError) -> click.ClickException:
    """Convert to a click error: exit code 2 if an argument or an option is wrong."""
    text = " ".join(str(error).split())
    if isinstance(error, ConfigurationError):
        return click.UsageError(text)
    return click.ClickException(text)


class Number(click.FloatRange):
    """A finite number within limits."""

    def convert(self, value: Any, *args: Any) -> float:
        found: float = super().convert(value, *args)
        if not math.isfinite(found):
            self.fail(f"{shown(value)} must be finite.", *args)
        return found


class File(click.Path):
    """The path of a file; one that the file system cannot accept is an error."""

    def convert(self, value: Any, *args: Any) -> Any:
        if not is_path(os.fspath(value)):
            self.fail(f"{shown(value)} is not a valid file name.", *args)
        return super().convert(value, *args)
