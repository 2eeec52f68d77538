"""Pipelines of Beam YAML, run by Beam's own main program for them."""

import logging
import re
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from sparkbeam.cli.programs import FOR_GOOD
from sparkbeam.cli.replaced_runners import on_our_runner
from sparkbeam.common.arguments import is_path, nearest, shown
from sparkbeam.common.command_errors import usage_error
from sparkbeam.common.secret_patterns import hidden
from sparkbeam.errors import ConfigurationError, SparkBeamError


def run(file: str, options: Sequence[str]) -> None:
    """Run the pipeline in a file on our runner, or its tests; see :func:`start`."""
    FOR_GOOD.enter_context(on_our_runner(file))
    start(file, options)


def start(file: str, options: Sequence[str]) -> None:
    """Run the pipeline in a file on the runner that is set up, or its tests.

    Args:
        file: a path, or a URL that Beam opens.
        options: those of Beam's main program, and pipeline options.

    Raises:
        ClickException: the pipeline is wrong, or fails; its cause is that of Beam's error.
        SparkBeamError: it cannot run here.
        SystemExit: its tests have run.
    """
    if "://" not in file and not (is_path(file) and Path(file).is_file()):
        raise click.BadParameter(f"There is no file {shown(file)}.", param_hint="FILE")
    # Beam warns of each module of its catalogue that lacks packages.
    logging.getLogger().setLevel(logging.ERROR)
    try:
        from apache_beam.yaml import main, yaml_provider
        from jinja2 import TemplateError
        from jsonschema import ValidationError
        from yaml import YAMLError
    except ImportError as error:
        raise click.ClickException(
            f"Beam YAML is not installed ({error}): pip install 'sparkbeam[yaml]'."
        ) from None
    yaml_provider.standard_providers()
    logging.getLogger().setLevel(logging.WARNING)
    perform = main.run_tests if {"--test", "--tests"} & {*options} else main.run
    try:
        perform([f"--yaml_pipeline_file={file}", *options])
    except SparkBeamError:
        raise
    except (ValueError, TemplateError, ValidationError, YAMLError) as error:
        raise _short(error, yaml_provider.standard_providers()) from error.__cause__
    except (AttributeError, TypeError) as error:
        frames = traceback.extract_tb(error.__traceback__)
        if not frames or frames[-1].filename != main.__file__:  # It is raised elsewhere.
            raise
        raise click.ClickException(
            f"{shown(file)} is not a Beam YAML pipeline: it must be a dictionary with the key "
            "'pipeline'; its 'options', if any, must also be a dictionary."
        ) from None


def _message(error: Exception) -> str:
    """Return the text of an error without the parts of the file that it shows."""
    mark = getattr(error, "problem_mark", None)
    if mark is not None:  # A part of a line may be one of a secret.
        told = getattr(error, "problem", None) or "cannot be read as YAML"
        before = getattr(error, "context", None) or ""
        return f"{before} {told} at line {mark.line + 1}, column {mark.column + 1}"
    # That of a schema prints the schema too.
    return str(getattr(error, "message", error))


def _reason_of(cause: BaseException) -> str:
    """Return the reason of an error without a text, as those of Beam's assertions."""
    frames = traceback.extract_tb(cause.__traceback__)
    code = frames[-1].line if frames else None
    if code and "PBegin" in code:
        return "It reads no other transform: leave out its 'input'."
    return f"{type(cause).__name__} at '{code}'" if code else type(cause).__name__


_UNKNOWN_TYPE = re.compile(r"Unknown type or missing provider for type (\S+) for ")


def _short(error: Exception, known: Iterable[str]) -> click.ClickException:
    """Return the error for a pipeline that is wrong.

    Args:
        known: the types of transforms that there are.
    """
    cause = error.__cause__
    if isinstance(cause, ConfigurationError) and str(cause) not in str(error):
        return usage_error(cause)
    told = hidden(" ".join(_message(error).split()))
    while cause is not None and cause.__cause__ is not None:
        cause = cause.__cause__
    if cause is not None and not str(cause).strip():
        told = f"{told} {_reason_of(cause)}"
    unknown = _UNKNOWN_TYPE.search(told)
    kinds = [kind.partition("-")[0] for kind in known]  # Some have a language behind their name.
    near = nearest(unknown[1], kinds) if unknown else None
    return click.ClickException(f"{told}: use {near}." if near else told)
