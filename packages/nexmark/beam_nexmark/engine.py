"""A runner prepared for measurements."""

import copy
import os
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn

import apache_beam as beam
import click
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.runner import PipelineResult, PipelineRunner, PipelineState, create_runner

from beam_nexmark.record import OURS
from sparkbeam import SparkBeamOptions, SparkRunner
from sparkbeam.common.arguments import nearest, shown
from sparkbeam.common.display_text import shortened
from sparkbeam.errors import ConfigurationError
from sparkbeam.spark.session import cores

_ALIASES = {
    "SparkRunner": OURS,
    "FnApiRunner": "apache_beam.runners.portability.fn_api_runner.FnApiRunner",
}


@dataclass(frozen=True)
class Engine:
    """A runner with its options.

    Attributes:
        name: its name in a :class:`~beam_nexmark.record.QueryRun`.
        runner: the runner of each pipeline.
        options: the options of each pipeline.
    """

    name: str
    runner: PipelineRunner
    options: PipelineOptions
    cores: int
    streaming: bool = False

    @property
    def folder(self) -> str | None:
        """The folder for files that are shared with the workers; None for the system's own."""
        place = self.options.get_all_options().get("temp_location")
        return place if place and os.path.isdir(place) else None

    def run(self, build: Callable[[beam.Pipeline], object]) -> PipelineResult:
        """Run the pipeline built by ``build`` to its end.

        Raises:
            Exception: the exception of the runner; RuntimeError if it only reports a failure.
        """
        options = self.options
        place = options.view_as(SparkBeamOptions).checkpoint_location
        if place:  # Each pipeline needs one of its own.
            options = copy.deepcopy(options)
            own = f"{place.rstrip('/')}/{uuid.uuid4().hex}"
            options.view_as(SparkBeamOptions).checkpoint_location = own
        pipeline = beam.Pipeline(runner=self.runner, options=options)
        build(pipeline)
        result = pipeline.run()
        state = result.wait_until_finish() or result.state
        if state != PipelineState.DONE:
            raise RuntimeError(f"The pipeline ended as {state}.")
        return result


def prepared(name: str, arguments: Sequence[str], *, streaming: bool = False) -> Engine:
    """Return the runner called ``name``, with the options in ``arguments``.

    Raises:
        ConfigurationError: the runner does not exist, or its options or session are invalid.
    """
    dotted = _ALIASES.get(name, name)
    runner: Any = None
    # The name may lead to anything, so anything may happen.
    with suppress(Exception, SystemExit):
        runner = create_runner(dotted)
    if not isinstance(runner, PipelineRunner):
        raise ConfigurationError(
            f"Unknown runner {shown(name)}: use SparkRunner, FnApiRunner, another name that "
            "Beam knows, or package.module.Class."
        )
    if dotted in _ALIASES.values():
        _refuse_unknown(arguments)
    # The stream ends, so that a summary of all results may wait for that.
    mode = ["--streaming", "--allow_unsafe_triggers"] if streaming else []
    given = PipelineOptions([f"--runner={dotted}", "--spark_progress=off", *mode, *arguments])
    if not isinstance(runner, SparkRunner):
        return Engine(type(runner).__name__, runner, given, os.cpu_count() or 1, streaming)
    spark = runner.session(given)
    return Engine(OURS, SparkRunner(spark), given, cores(spark), streaming)


def _refuse_unknown(arguments: Sequence[str]) -> None:
    """Refuse unknown options, which Beam would ignore silently."""

    def complain(message: str) -> NoReturn:
        raise ConfigurationError(f"Options of the runner: {shortened(message, 200)}.")

    parsers: list[Any] = []
    PipelineOptions([]).get_all_options(add_extra_args_fn=parsers.append)
    parsers[0].error = complain
    _, unknown = parsers[0].parse_known_args(list(arguments))
    if unknown:
        near = nearest(unknown[0].partition("=")[0], _names())
        advice = f": use {near}." if near else "."
        raise ConfigurationError(f"Unknown option or command {shown(unknown[0])}{advice}")


def _names() -> list[str]:
    """Return the options of the command that runs, and the commands beside it."""
    context = click.get_current_context(silent=True)
    if context is None:
        return []
    options = [name for each in context.command.params for name in each.opts]
    group = context.parent and context.parent.command
    return [*options, *(group.commands if isinstance(group, click.Group) else ())]
