"""Beam programs that the commands run in this process."""

import contextlib
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from sparkbeam.cli import main_program
from sparkbeam.cli.made_pipelines import watch_pipelines
from sparkbeam.cli.replaced_runners import defaults_of, on_our_runner
from sparkbeam.common.arguments import is_path, shown
from sparkbeam.common.command_errors import usage_error
from sparkbeam.errors import SparkBeamError

YAML_SUFFIXES = (".yaml", ".yml")
_MAIN = "__main__.py"

FOR_GOOD = contextlib.ExitStack()
"""Holds what ``sparkbeam run`` replaces until the process ends."""


@dataclass(frozen=True)
class Program:
    """A Beam program run in this process."""

    name: str
    is_module: bool
    arguments: tuple[str, ...]

    def explanations(self) -> list[Any]:
        """Run the program and return the explanations of its pipelines; at least one.

        Raises:
            ClickException: it has none; the message says why.
        """
        self.check()
        from sparkbeam.explain.explanation import explanations

        with (
            explanations.collected() as found,
            on_our_runner(self.name) as others,
            watch_pipelines() as pipelines,
        ):
            ending = self._run()
        self._tell_of(others)
        if found and not isinstance(ending, SparkBeamError):
            if ending is not None:
                advice = (
                    "This is expected if it needs the results of a run."
                    if pipelines.may_lack_results(ending)
                    else "Correct the program to see what comes after that."
                )
                click.echo(
                    f"Note: after planning, '{self.name}' ended with {_named(ending)}. {advice}",
                    err=True,
                )
            return found
        raise self._failure(ending)

    def plan(self) -> Any:
        """Run the program silently and return the plan of its pipeline.

        Raises:
            ClickException: it has none, or several.
        """
        from sparkbeam.explain.explanation import plan_of

        with contextlib.redirect_stdout(io.StringIO()):
            explanations = self.explanations()
        if len(explanations) > 1:
            raise click.BadParameter(
                f"'{self.name}' has {len(explanations)} pipelines: give it the arguments with "
                "which it runs only the pipeline of the checkpoint.",
                param_hint="--program",
            )
        return plan_of(explanations[0])

    def reports(self) -> tuple[list[Any], BaseException | None]:
        """Run the program and its pipelines; return their reports and the program's exception.

        Raises:
            ClickException: no pipeline has started; the message says why.
        """
        self.check()
        from sparkbeam.explain.report import reports

        with reports.collected() as waiting, on_our_runner(self.name) as others:
            ending = self._run()
            found = [report() for report in waiting]
        self._tell_of(others)
        if not found:
            raise self._failure(ending, "report")
        if ending is not None and not isinstance(ending, SparkBeamError | SystemExit):
            click.echo(main_program.users_traceback(ending), err=True, nl=False)
        return found, ending

    def run(self, flags: Sequence[str]) -> None:
        """Run the program with its pipelines on our runner, for good.

        Args:
            flags: pipeline options for those that the program does not give.

        Raises:
            ConfigurationError: a flag is wrong.
            SystemExit: the program has ended with an exit code, or has failed.
        """
        self.check()
        defaults = defaults_of(flags)
        # Threads of the program may outlive its last line.
        FOR_GOOD.enter_context(on_our_runner(self.name, defaults))
        main_program.perform(self.name, self.arguments, is_module=self.is_module)

    def _tell_of(self, others: Iterable[str]) -> None:
        """Print a note about replaced runners."""
        for name in dict.fromkeys(others):
            click.echo(
                f"Note: '{self.name}' chooses the runner {name} in its code. This is how the "
                "pipeline runs with sparkbeam.SparkRunner instead.",
                err=True,
            )

    def check(self, *, folders: bool = False) -> None:
        """Check that the program exists.

        Raises:
            BadParameter: it does not.
        """
        problem = self._problem(folders=folders)
        if problem:
            raise click.BadParameter(problem, param_hint="PROGRAM")

    def _problem(self, *, folders: bool) -> str:
        """Return the reason why there is no such program; empty if there is."""
        name = shown(self.name)
        if self.is_module:
            is_name = all(part.isidentifier() for part in self.name.split("."))
            return "" if is_name else f"{name} is not a module name."
        if not (is_path(self.name) and Path(self.name).exists()):
            return f"There is no file {name}."
        if self.name.endswith(".ipynb"):
            return (
                f"{name} is a notebook: convert it with 'jupyter nbconvert --to script', and give "
                "the Python file."
            )
        if folders:
            return ""
        if self.name.endswith(YAML_SUFFIXES):
            return (
                f"{name} is no Python program. Run a pipeline of Beam YAML with 'sparkbeam yaml', "
                "or give '-m apache_beam.yaml.main --yaml_pipeline_file=FILE' as the program."
            )
        if Path(self.name).is_dir() and not Path(self.name, _MAIN).exists():
            return f"{name} is a folder without {_MAIN}: give a file."
        return ""

    def _run(self) -> BaseException | None:
        """Run the program; return its exception, or None on success."""
        with main_program.restored():
            try:
                main_program.start(self.name, self.arguments, is_module=self.is_module)
            except SystemExit as exit:
                return exit if exit.code else None
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                return error
            return None

    def _failure(
        self, ending: BaseException | None, to_do: str = "explain"
    ) -> click.ClickException:
        """Return the error for a program without a pipeline."""
        if ending is None:
            return click.ClickException(
                f"'{self.name}' ended without running a pipeline, so there is nothing to {to_do}. "
                "Give it the arguments with which it runs one."
            )
        if isinstance(ending, SparkBeamError):
            return usage_error(ending)
        is_missing = isinstance(ending, ImportError) and (
            # The module itself, rather than one that it imports.
            ending.name is None or f"{self.name}.".startswith(f"{ending.name}.")
        )
        if self.is_module and is_missing:
            return click.BadParameter(
                f"There is no module '{self.name}' to run: {ending}.", param_hint="PROGRAM"
            )
        if isinstance(ending, SystemExit):
            return click.ClickException(
                f"'{self.name}' ended with {_named(ending)} before it ran a pipeline. "
                "Give it the arguments with which it runs one."
            )
        click.echo(main_program.users_traceback(ending), err=True, nl=False)
        return click.ClickException(f"'{self.name}' failed before it ran a pipeline.")


def _named(ending: BaseException) -> str:
    if isinstance(ending, SystemExit):
        return f"exit code {ending.code}" if isinstance(ending.code, int) else f"'{ending.code}'"
    return f"{type(ending).__name__}: {ending}"
