"""This runner in the place of the one that a program names."""

import copy
import functools
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from sparkbeam.common.arguments import shown

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions

_RUNNER = "sparkbeam.SparkRunner"

Defaults = Mapping["type[PipelineOptions]", Mapping[str, Any]]
"""Values of options by the class that declares them."""


def defaults_of(flags: Sequence[str]) -> Defaults:
    """Return the values that pipeline options on a command line give.

    Raises:
        UsageError: there is no such option.
        ConfigurationError: an option of ours is misspelt or has a wrong value.
    """
    if not flags:
        return {}
    from apache_beam.options.pipeline_options import PipelineOptions

    from sparkbeam.options.misspelt import is_declared
    from sparkbeam.options.spark_options import checked

    options = PipelineOptions([*flags])
    checked(options)
    for flag in flags:
        name = flag.lstrip("-").partition("=")[0]
        if not is_declared(name):
            raise click.UsageError(
                f"There is no option {shown(f'--{name}')}: only options of this command and "
                "pipeline options of the form --name=value may precede the program."
            )
    found: dict[type[PipelineOptions], Mapping[str, Any]] = {}
    for group in PipelineOptions.__subclasses__():
        values = options.view_as(group).get_all_options(drop_default=True, current_only=True)
        if values:
            found[group] = values
    return found


@contextmanager
def on_our_runner(
    program: str, defaults: Defaults | None = None, *, is_told: bool = True
) -> Iterator[list[str]]:
    """Replace every pipeline's runner by ours; yield the names of the replaced runners.

    Options of other runners are ignored, with a note that names them.

    Args:
        defaults: options of the pipelines that do not have them.
    """
    from apache_beam import Pipeline
    from apache_beam.options.pipeline_options import PipelineOptions

    from sparkbeam.options import other_runners
    from sparkbeam.runner.spark_runner import SparkRunner

    SparkRunner()  # From the first one on, constructors of transforms are checked.
    beams: Any = Pipeline
    usual = beams.__init__
    others: list[str] = []
    told: set[tuple[str, ...]] = set()

    def tell(options: PipelineOptions) -> None:
        names = tuple(other_runners.unused(options))
        if is_told and names and names not in told:
            told.add(names)
            listed = ", ".join(f"--{name}" for name in names)
            click.echo(
                f"Note: '{program}' has options of other runners, which sparkbeam.SparkRunner "
                f"does not use: {listed}.",
                err=True,
            )

    @functools.wraps(usual)
    def on_spark(
        pipeline: Pipeline,
        runner: Any = None,
        options: Any = None,
        argv: Any = None,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        if not isinstance(runner, SparkRunner):
            if runner is not None and runner != _RUNNER:
                others.append(runner if isinstance(runner, str) else type(runner).__name__)
            ours: Any = SparkRunner()
            module = sys.modules.get("apache_beam.runners.interactive.interactive_runner")
            interactive: Any = getattr(module, "InteractiveRunner", None)
            if interactive is not None and isinstance(runner, interactive):
                ours = interactive(underlying_runner=ours)
            runner = ours
        if options is None and (argv is None or isinstance(argv, list)):
            options, argv = PipelineOptions(argv or []), None
        if isinstance(options, PipelineOptions):
            options = _ours(options, defaults or {})
            tell(options)
        usual(pipeline, runner, options, argv, *args, **kwargs)

    beams.__init__ = on_spark
    try:
        with other_runners.tolerated():
            yield others
    finally:
        beams.__init__ = usual


def _ours(options: "PipelineOptions", defaults: Defaults) -> "PipelineOptions":
    """Return a copy of a program's options for a pipeline on our runner."""
    from apache_beam.options.pipeline_options import StandardOptions

    view = options.view_as(StandardOptions)
    named = view.runner
    # A runner in its place may not be copyable.
    view.runner = _RUNNER
    try:
        own = copy.deepcopy(options)
    finally:
        view.runner = named
    for group, values in defaults.items():
        target = own.view_as(group)
        given = target.get_all_options(drop_default=True, current_only=True)
        for name, value in values.items():
            if name not in given and name != "runner":
                setattr(target, name, value)
    return own
