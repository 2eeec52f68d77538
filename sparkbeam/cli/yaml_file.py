"""Pipelines of Beam YAML, run by Beam's own main program for them."""

import logging
from collections.abc import Sequence
from pathlib import Path

import click

from sparkbeam.cli.programs import FOR_GOOD
from sparkbeam.cli.replaced_runners import on_our_runner
from sparkbeam.common.arguments import is_path, shown
from sparkbeam.common.command_errors import usage_error
from sparkbeam.errors import ConfigurationError, SparkBeamError


def run(file: str, options: Sequence[str]) -> None:
    """Run the pipeline in a file, or its tests.

    Args:
        file: a path, or a URL that Beam opens.
        options: those of Beam's main program, and pipeline options.

    Raises:
        ClickException: the pipeline is wrong, or fails.
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
    start = main.run_tests if {"--test", "--tests"} & {*options} else main.run
    FOR_GOOD.enter_context(on_our_runner(file))
    try:
        start([f"--yaml_pipeline_file={file}", *options])
    except SparkBeamError as error:
        raise usage_error(error) from None
    except (ValueError, TemplateError, ValidationError, YAMLError) as error:
        raise _short(error) from None


def _short(error: Exception) -> click.ClickException:
    """Return the error for a pipeline that is wrong."""
    cause = error.__cause__
    if isinstance(cause, ConfigurationError) and str(cause) not in str(error):
        return usage_error(cause)
    # That of a schema prints the schema too.
    return click.ClickException(" ".join(str(getattr(error, "message", error)).split()))
