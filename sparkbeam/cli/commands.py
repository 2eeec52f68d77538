"""The command ``sparkbeam``.

Beam and PySpark are imported by the commands that need them, so that
``--help`` and ``--version`` answer at once.
"""

import contextlib
import functools
import io
import json
import runpy
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click

from sparkbeam import __version__
from sparkbeam.common.arguments import is_path, shown
from sparkbeam.common.command_errors import File, ShortErrors, usage_error
from sparkbeam.errors import SparkBeamError
from sparkbeam.nexmark.command import nexmark

_MAIN = "__main__.py"
_RUNNER = "sparkbeam.SparkRunner"


@click.group(cls=ShortErrors, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="sparkbeam")
def main() -> None:
    """Apache Beam Python pipelines on Spark.

    To run a pipeline, start its program as always and choose the runner:

    \b
        python my_pipeline.py --runner=sparkbeam.SparkRunner

    The name 'SparkRunner' alone is Beam's own runner for Spark, which needs a
    Java job server.

    The commands below explain, inspect and measure pipelines.
    """  # noqa: D301 - click reads the character.


main.add_command(nexmark)


# Common settings of the commands that run a Beam program.
_OVER_PROGRAM: dict[str, Any] = {
    "context_settings": {"allow_interspersed_args": False},
    "options_metavar": "[OPTIONS]",
}
_PROGRAM = click.argument("program")
_ARGUMENTS = click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
_AS_MODULE = click.option(
    "-m",
    "is_module",
    is_flag=True,
    help="PROGRAM is the name of a module, as in 'python -m'.",
)


def _save_to_files(help: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return click.option(
        "--save",
        "files",
        metavar="FILE",
        multiple=True,
        type=File(dir_okay=False, writable=True, path_type=Path),
        help=help,
    )


@main.command(short_help="Show how a Beam program would run on Spark.", **_OVER_PROGRAM)
@_AS_MODULE
@_save_to_files(
    "Also write the explanation to FILE: a picture of the stages (.svg), picture and "
    "text (.html) or the text alone (.txt). Repeatable."
)
@_PROGRAM
@_ARGUMENTS
def explain(
    program: str, arguments: tuple[str, ...], is_module: bool, files: tuple[Path, ...]
) -> None:
    """Show how the Beam program PROGRAM would run on Spark.

    PROGRAM is a file such as my_pipeline.py or, after -m, a module. It starts
    with the ARGUMENTS and runs to its end, including all code outside of
    pipelines. But no pipeline is executed, whichever runner the program
    chooses: instead of running, each prints

    \b
      - your transforms, and the stages that run them,
      - the stages, and the exchanges between them,
      - Spark's own plan of each query.

    To the program each pipeline has ended successfully, without metrics and
    output. For Spark's plan a session is started if the program has none.

    \b
    Examples:
      sparkbeam explain my_pipeline.py --input books.txt
      sparkbeam explain --save plan.html my_pipeline.py --input books.txt
      sparkbeam explain -m my_package.my_pipeline --input books.txt
    """  # noqa: D301 - click reads the character.
    from sparkbeam.explain.explanation import check_suffix

    _check_targets(files, check_suffix)
    _save(_Program(program, is_module, arguments).explanations(), files)


@main.command(
    short_help="Run a Beam program on Spark, and report on its pipelines.",
    **_OVER_PROGRAM,
)
@_AS_MODULE
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON for each pipeline.")
@_save_to_files(
    "Also write the report to FILE: a picture of the stages with their figures (.svg), "
    "picture and text (.html), the text alone (.txt) or JSON (.json). Repeatable."
)
@_PROGRAM
@_ARGUMENTS
def report(
    program: str,
    arguments: tuple[str, ...],
    is_module: bool,
    as_json: bool,
    files: tuple[Path, ...],
) -> None:
    """Run the Beam program PROGRAM on Spark, and report on its pipelines.

    PROGRAM is a file such as my_pipeline.py or, after -m, a module. It starts
    with the ARGUMENTS; each of its pipelines runs on Spark, whichever runner it
    chooses. The report has each step's elements in and out, time, bytes and
    columnar elements, and the shuffled and spilled bytes of Spark's stages. The
    exit code is 1 if the program or a pipeline fails.

    \b
    Examples:
      sparkbeam report my_pipeline.py --input books.txt
      sparkbeam report --save report.html my_pipeline.py --input books.txt
    """  # noqa: D301 - click reads the character.
    from sparkbeam.explain.report import check_suffix

    _check_targets(files, check_suffix)
    reports, ending = _Program(program, is_module, arguments).reports()
    for each in reports:
        click.echo(json.dumps(each.content()) if as_json else f"{each}\n")
    _save(reports, files)
    if ending is not None or any(each.problem for each in reports):
        raise SystemExit(1)


@main.command()
@click.argument("location")
def drain(location: str) -> None:
    """End the sources of the streaming pipeline with the checkpoint LOCATION.

    It processes what it has read, windows and timers fire, and it stops with the
    state DRAINED. If it is not running, this happens at its next start. A drained
    checkpoint cannot be continued: the next pipeline needs another one.
    """
    from sparkbeam.streaming.execution import ask_to_drain

    try:
        asked = ask_to_drain(location)
    except SparkBeamError as error:
        raise usage_error(error) from error
    click.echo(
        "The pipeline ends its sources, now if it is running, else at its next start."
        if asked
        else "The pipeline has already ended: there is nothing to drain."
    )


@main.command(short_help="Examine a Spark session and its workers.")
@click.option("--spark_master", metavar="URL", help="As in a pipeline; the default is local[*].")
@click.option("--spark_connect", metavar="URL", help="As in a pipeline.")
@click.option("--spark_conf", metavar="KEY=VALUE", multiple=True, help="As in a pipeline.")
@click.option("--spark_py_files", metavar="PATH", multiple=True, help="As in a pipeline.")
@click.option(
    "--checkpoint_location", metavar="PATH", help="A folder that the workers have to share."
)
@click.option(
    "--reach",
    metavar="HOST:PORT",
    multiple=True,
    help="An address that the workers have to reach. Repeatable.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON for each check.")
@click.argument("program", required=False, type=File(exists=True, dir_okay=False, path_type=Path))
def doctor(
    program: Path | None,
    reach: tuple[str, ...],
    checkpoint_location: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Examine what a Spark session can do, and what its workers have.

    Small queries and files find out, and nothing is left behind. What a session lacks has the same
    name as in the log of a pipeline, with what happens without it. Workers are to have the Python
    and the packages of the driver, and the modules that the file PROGRAM imports, which is not run.

    The exit code is 1 if pipelines cannot run there, or something that you named is not in order.

    \b
    Examples:
      sparkbeam doctor --spark_connect sc://host:15002 my_pipeline.py
      sparkbeam doctor --spark_master spark://host:7077 --checkpoint_location /data/checkpoint
    """  # noqa: D301 - click reads the character.
    from sparkbeam.inspection import doctor as examination

    addresses = {text: _address(text) for text in reach}
    try:
        modules = () if program is None else examination.modules_of(program)
    except (SyntaxError, ValueError) as error:
        raise click.BadParameter(
            f"{shown(str(program))} is no Python: {error}.", param_hint="PROGRAM"
        ) from None
    checks = []
    try:
        session = _session(options)
        for subject, found in (
            ("Session", examination.session_checks(session)),
            (
                "Workers",
                examination.worker_checks_of(session, modules, addresses, checkpoint_location),
            ),
        ):
            part = list(found)
            checks += part
            if not as_json:
                click.echo(f"{subject}\n" + "\n".join(examination.check_lines(part)) + "\n")
    except SparkBeamError as error:
        raise usage_error(error) from error
    for check in checks if as_json else ():
        click.echo(json.dumps(check.content()))
    if any(check.state == examination.FAILS for check in checks):
        raise SystemExit(1)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise click.BadParameter(f"{shown(text)} is not HOST:PORT.", param_hint="--reach")
    return host, int(port)


@main.command()
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON.")
@click.option(
    "--max_lag",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="The most that the pipeline may be behind its sources. Default: no limit.",
)
@click.option(
    "--patience",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="The longest that a micro-batch may take, or be overdue. Default: a minute, or ten "
    "times the duration of the last one if that is longer.",
)
@click.argument("location")
def status(location: str, as_json: bool, max_lag: float | None, patience: float | None) -> None:
    """Show the health of the streaming pipeline with the checkpoint LOCATION.

    The exit code is 0 if it makes progress, is idle, has finished or is drained, 1 if it is stuck,
    behind by more than --max_lag, has failed or was cancelled, or if its program has sent no
    heartbeat for half a minute, and 2 if there is no such pipeline.
    """
    from sparkbeam.streaming.status import status as found_at

    try:
        found = found_at(location, max_lag=max_lag, patience=patience)
    except SparkBeamError as error:
        raise usage_error(error) from error
    click.echo(json.dumps(found.content()) if as_json else "\n".join(found.lines()))
    if not found.is_well:
        raise SystemExit(1)


@main.command(short_help="Show offsets, commits and watermarks of a checkpoint.")
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON.")
@click.argument("location")
def checkpoint(location: str, as_json: bool) -> None:
    """Show the progress of a pipeline in its checkpoint LOCATION.

    That is the last planned and the last committed micro-batch, the one that a restart repeats, the
    offsets of all sources, the watermarks of sources and steps, and who holds the least of them
    back. Nothing is changed, whether the pipeline is running or not.
    """
    from sparkbeam.streaming.checkpoint import checkpoint_content

    try:
        found = checkpoint_content(location)
    except SparkBeamError as error:
        raise usage_error(error) from error
    click.echo(json.dumps(found.content()) if as_json else "\n".join(found.lines()))


@main.command(short_help="Show the state of a step in a checkpoint.")
@click.option("--step", required=True, metavar="LABEL", help="The step whose state is shown.")
@click.option("--key", metavar="KEY", help="The key whose state is shown. Default: all of them.")
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON for each entry.")
@click.option(
    "--program",
    metavar="PROGRAM",
    help="The program of the pipeline, which has all coders. It starts with the ARGUMENTS "
    "after '--' and runs to its end, but no pipeline is executed.",
)
@_AS_MODULE
@click.option(
    "--spark_conf",
    "conf",
    metavar="KEY=VALUE",
    multiple=True,
    help="A setting of the local Spark that reads the state. Repeatable.",
)
@click.argument("location")
@_ARGUMENTS
def state(
    location: str,
    step: str,
    key: str | None,
    as_json: bool,
    program: str | None,
    is_module: bool,
    conf: tuple[str, ...],
    arguments: tuple[str, ...],
) -> None:
    """Show the state of a step in the checkpoint LOCATION, as of its last commit.

    That is, by key, windows with their accumulators or values, sessions, states and timers, and
    waiting elements. A local Spark reads it, and nothing is changed, whether the pipeline is
    running or not. Values of Beam's standard coders are decoded; rows and your own coders need the
    --program. If other users may have written to the checkpoint, nothing is decoded that may run
    code, and bytes are shown instead.

    \b
    Examples:
      sparkbeam state /data/checkpoint --step Count
      sparkbeam state /data/checkpoint --step Count --key k1
      sparkbeam state /data/checkpoint --step Visits --program my_pipeline.py -- --streaming
    """  # noqa: D301 - click reads the character.
    from sparkbeam.inspection.stage_state import kept_state
    from sparkbeam.inspection.state_reader import SparkStore
    from sparkbeam.streaming.checkpoint_files import absolute

    plan = None if program is None else _Program(program, is_module, arguments).plan()
    if program is None and arguments:
        raise click.UsageError("ARGUMENTS need a --program.")
    try:
        store = SparkStore(partial(_local_spark, conf), absolute(location))
        for found in kept_state(location, store, plan).states(step, key):
            lines = map(json.dumps, found.content()) if as_json else found.lines()
            click.echo("\n".join(lines))
    except SparkBeamError as error:
        raise usage_error(error) from error


def _local_spark(conf: Iterable[str]) -> Any:
    """Return a local session."""
    return _session({"spark_conf": conf})


def _session(options: Mapping[str, Any]) -> Any:
    """Return the session for options of a pipeline, with their files on its workers.

    Raises:
        ConfigurationError: an option or the environment is wrong.
    """
    from sparkbeam.options import spark_options
    from sparkbeam.spark import session as sessions

    arguments = []
    for name, given in options.items():
        values = [given] if isinstance(given, str) else given or ()
        arguments += [f"--{name}={value}" for value in values]
    checked = spark_options.checked(spark_options.SparkBeamOptions(arguments))
    session = sessions.obtain(checked)
    sessions.ship_modules(session, checked)
    return session


@main.command()
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=0,
    metavar="PORT",
    help="The port of the page on loopback. Default: any free port.",
)
@click.argument("location")
def watch(location: str, port: int) -> None:
    """Show the streaming pipeline with the checkpoint LOCATION on a live page.

    Any process may run the pipeline: the page shows watermarks, state and micro-batches from its
    checkpoint, and steps, warnings and errors that its program writes there. It says when the
    program has gone. Its address is printed; Ctrl-C ends the command.
    """
    import threading

    from sparkbeam.observe.page import opening
    from sparkbeam.observe.page.watch import CheckpointView

    try:
        opening.check()
        view = CheckpointView(location)
    except SparkBeamError as error:
        raise usage_error(error) from error
    with contextlib.suppress(KeyboardInterrupt):
        click.echo(f"The live page is at {opening.server(port).add(view)}")
        threading.Event().wait()


def _check_targets(files: Iterable[Path], check_suffix: Callable[[Path], None]) -> None:
    """Check the target files before the program runs."""
    for file in files:
        try:
            check_suffix(file)
        except SparkBeamError as error:
            raise click.BadParameter(str(error), param_hint="--save") from None
        if not file.absolute().parent.is_dir():
            raise click.BadParameter(f"There is no folder '{file.parent}'.", param_hint="--save")


def _save(pipelines: Iterable[Any], files: Iterable[Path]) -> None:
    """Save each pipeline to each file."""
    listed = list(pipelines)
    for file in files:
        for number, pipeline in enumerate(listed, start=1):
            # Further pipelines of a program are saved to plan-2.svg, …
            name = file.name if number == 1 else f"{file.stem}-{number}{file.suffix}"
            try:
                pipeline.save(file.with_name(name))
            except SparkBeamError as error:
                raise usage_error(error) from error
            click.echo(f"Saved {file.with_name(name)}", err=True)


@dataclass(frozen=True)
class _Program:
    """A Beam program run in this process."""

    name: str
    is_module: bool
    arguments: tuple[str, ...]

    def explanations(self) -> list[Any]:
        """Run the program and return the explanations of its pipelines; at least one.

        Raises:
            ClickException: it has none; the message says why.
        """
        self._check()
        from sparkbeam.explain.explanation import explanations

        with explanations.collected() as found, _on_our_runner() as others:
            ending = self._run()
        self._tell_of(others)
        if found and not isinstance(ending, SparkBeamError):
            if ending is not None:
                click.echo(
                    f"Note: after the plan '{self.name}' ended with {_named(ending)}. "
                    "This is expected if it needs the results of a run.",
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
                "which it runs the one of the checkpoint alone.",
                param_hint="--program",
            )
        return plan_of(explanations[0])

    def reports(self) -> tuple[list[Any], BaseException | None]:
        """Run the program and its pipelines; return their reports and the program's exception.

        Raises:
            ClickException: no pipeline has started; the message says why.
        """
        self._check()
        from sparkbeam.explain.report import reports

        with reports.collected() as waiting, _on_our_runner() as others:
            ending = self._run()
            found = [report() for report in waiting]
        self._tell_of(others)
        if not found:
            raise self._failure(ending, "report")
        if ending is not None and not isinstance(ending, SparkBeamError | SystemExit):
            click.echo(_users_traceback(ending), err=True, nl=False)
        return found, ending

    def _tell_of(self, others: Iterable[str]) -> None:
        """Print a note about replaced runners."""
        for name in dict.fromkeys(others):
            click.echo(
                f"Note: '{self.name}' chooses the runner {name} in its code. This is how the "
                "pipeline runs with sparkbeam.SparkRunner in its place.",
                err=True,
            )

    def _check(self) -> None:
        """Check that the program exists."""
        if not self.is_module and not (is_path(self.name) and Path(self.name).exists()):
            raise click.BadParameter(f"There is no file {shown(self.name)}.", param_hint="PROGRAM")
        if not self.is_module and Path(self.name).is_dir() and not Path(self.name, _MAIN).exists():
            raise click.BadParameter(
                f"{shown(self.name)} is a folder without {_MAIN}: give a file.",
                param_hint="PROGRAM",
            )
        if self.is_module and not all(part.isidentifier() for part in self.name.split(".")):
            raise click.BadParameter(
                f"{shown(self.name)} is not a module name.", param_hint="PROGRAM"
            )

    def _run(self) -> BaseException | None:
        """Run the program; return its exception, or None on success."""
        with _process_state():
            sys.argv = [self.name, *self.arguments]
            try:
                if self.is_module:
                    sys.path.insert(0, str(Path.cwd()))
                    runpy.run_module(self.name, run_name="__main__", alter_sys=True)
                else:
                    sys.path.insert(0, str(Path(self.name).absolute().parent))
                    runpy.run_path(self.name, run_name="__main__")
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
        if self.is_module and _is_missing(ending, self.name):
            return click.BadParameter(
                f"There is no module '{self.name}' to run: {ending}.", param_hint="PROGRAM"
            )
        if isinstance(ending, SystemExit):
            return click.ClickException(
                f"'{self.name}' ended with {_named(ending)} before it ran a pipeline. "
                "Give it the arguments with which it runs one."
            )
        click.echo(_users_traceback(ending), err=True, nl=False)
        return click.ClickException(f"'{self.name}' failed before it ran a pipeline.")


@contextmanager
def _process_state() -> Iterator[None]:
    """Restore the process state that a program changes."""
    argv, path = sys.argv, list(sys.path)
    try:
        yield
    finally:
        sys.argv = argv
        sys.path[:] = path


@contextmanager
def _on_our_runner() -> Iterator[list[str]]:
    """Replace every pipeline's runner by ours; yield the names of replaced runners."""
    from apache_beam import Pipeline

    from sparkbeam.runner.spark_runner import SparkRunner

    beams: Any = Pipeline
    usual = beams.__init__
    others: list[str] = []

    @functools.wraps(usual)
    def made(pipeline: Pipeline, runner: Any = None, *args: Any, **kwargs: Any) -> None:
        if not isinstance(runner, SparkRunner):
            if runner is not None and runner != _RUNNER:
                others.append(runner if isinstance(runner, str) else type(runner).__name__)
            runner = SparkRunner()
        usual(pipeline, runner, *args, **kwargs)

    beams.__init__ = made
    try:
        yield others
    finally:
        beams.__init__ = usual


def _is_missing(error: BaseException, module: str) -> bool:
    """Return whether the module itself is missing, rather than one that it imports."""
    return isinstance(error, ImportError) and (
        error.name is None or module == error.name or module.startswith(f"{error.name}.")
    )


def _named(ending: BaseException) -> str:
    if isinstance(ending, SystemExit):
        return f"exit code {ending.code}" if isinstance(ending.code, int) else f"'{ending.code}'"
    return f"{type(ending).__name__}: {ending}"


def _users_traceback(error: BaseException) -> str:
    """Return the traceback from the program's first line on."""
    frames = error.__traceback__
    ours = (__file__, runpy.__file__, "<frozen runpy>")
    while frames is not None and frames.tb_frame.f_code.co_filename in ours:
        frames = frames.tb_next
    return "".join(traceback.format_exception(type(error), error, frames))
