"""The command ``sparkbeam``.

Beam and PySpark are imported by the commands that need them, so that
``--help`` and ``--version`` answer at once.
"""

import contextlib
import json
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import click
from click.core import augment_usage_errors

from sparkbeam import __version__
from sparkbeam.cli.programs import Program
from sparkbeam.common.arguments import shown
from sparkbeam.common.command_errors import File, Number, ShortErrors, usage_error
from sparkbeam.common.entry_points import COMMANDS, function, registered
from sparkbeam.errors import SparkBeamError


class _Command(click.Command):
    """A command whose wrong arguments are usage errors, also where this package finds them."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except SparkBeamError as error:
            with augment_usage_errors(ctx):
                raise usage_error(error) from error


class _Commands(ShortErrors):
    """The commands of sparkbeam, and those of the packages beside it."""

    command_class = _Command

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *registered(COMMANDS)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        try:
            return super().get_command(ctx, cmd_name) or function(COMMANDS, cmd_name)
        except SparkBeamError as error:
            raise usage_error(error) from error


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="sparkbeam")
def main() -> None:
    """Apache Beam Python pipelines on Spark.

    To run a pipeline, start its program as always and choose the runner:

    \b
        python my_pipeline.py --runner=sparkbeam.SparkRunner

    The name 'SparkRunner' alone is Beam's own runner for Spark, which needs a
    Java job server. A program that names another runner runs unchanged with

    \b
        sparkbeam run my_pipeline.py

    The other commands check, explain, inspect and measure pipelines.
    """  # noqa: D301 - click reads the character.


# Common settings of the commands that run a Beam program.
_OVER_PROGRAM: dict[str, Any] = {
    "context_settings": {"allow_interspersed_args": False},
    "options_metavar": "[OPTIONS]",
}
_PROGRAM = click.argument("program")
_ARGUMENTS = click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
_AS_MODULE = click.option(
    "-m", "is_module", is_flag=True, help="PROGRAM is the name of a module, as in 'python -m'."
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


@main.command(
    short_help="Run a Beam program on Spark, whichever runner it names.",
    context_settings={"allow_interspersed_args": False, "ignore_unknown_options": True},
    options_metavar="[OPTIONS] [PIPELINE OPTIONS]",
)
@_AS_MODULE
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="PROGRAM [ARGUMENTS]...")
def run(words: tuple[str, ...], is_module: bool) -> None:
    """Run the Beam program PROGRAM on Spark, whichever runner it names.

    PROGRAM is a file such as my_pipeline.py or, with -m, a module. It runs with
    the ARGUMENTS as with 'python', with the same output and exit code, except
    that every pipeline runs on Spark. No part of another runner is started.

    Use pipeline options (--name=value) before PROGRAM if the program does not
    pass any to its pipelines. Options that a pipeline sets itself take priority.

    \b
    Examples:
      sparkbeam run my_pipeline.py --input books.txt --runner=DirectRunner
      sparkbeam run --spark_connect=sc://host:15002 my_pipeline.py
      sparkbeam run --spark_master=local[4] -m my_package.my_pipeline
    """  # noqa: D301 - click reads the character.
    at = next((at for at, word in enumerate(words) if not word.startswith("--")), len(words))
    if at == len(words):
        raise click.UsageError("Missing argument 'PROGRAM'.")
    Program(words[at], is_module, words[at + 1 :]).run(words[:at])


@main.command(
    short_help="Run a pipeline of Beam YAML on Spark.",
    context_settings={"allow_interspersed_args": False, "ignore_unknown_options": True},
    options_metavar="",
)
@click.argument("file")
@click.argument("options", nargs=-1, type=click.UNPROCESSED, metavar="[PIPELINE OPTIONS]...")
def yaml(file: str, options: tuple[str, ...]) -> None:
    """Run the pipeline of Beam YAML in FILE on Spark.

    FILE is a path or a URL that Beam can open. After it come pipeline options
    and those of 'python -m apache_beam.yaml.main', which this command runs:
    --jinja_variables=JSON for a template, --tests for the tests in the file.

    \b
    Examples:
      sparkbeam yaml pipeline.yaml
      sparkbeam yaml pipeline.yaml --streaming --checkpoint_location=state
      sparkbeam yaml pipeline.yaml --jinja_variables='{"day": "2026-01-31"}'
    """  # noqa: D301 - click reads the character.
    from sparkbeam.cli import yaml_file

    yaml_file.run(file, options)


@main.command(
    short_help="Check which Beam programs run on Spark, and what the others need.", **_OVER_PROGRAM
)
@_AS_MODULE
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON for each verdict.")
@click.option(
    "--timeout",
    type=Number(min=0, min_open=True, max=86_400),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Time limit for each program.",
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="PROGRAM... [-- ARGUMENTS]")
def check(words: tuple[str, ...], is_module: bool, as_json: bool, timeout: float) -> None:
    """Check which Beam programs run on Spark, and what the others need.

    Each PROGRAM is a file, a folder or, with -m, a module; a file .yaml is a
    pipeline of Beam YAML, with the ARGUMENTS of 'sparkbeam yaml'. In a folder,
    every Python file that mentions Beam is a program. Each program runs to its end in
    its own process with the ARGUMENTS, including all code outside of pipelines.
    Its pipelines are built and planned, but not executed, and Spark is not
    started.

    The table has a line for each program, and for each transform that cannot
    run. SQL queries are checked without Spark. Whatever only Spark knows, such
    as the columns of a file, is not checked. The exit code is 1 if a program
    cannot run or fails, and 0 if all run. Programs that need other arguments
    are not checked.

    \b
    Examples:
      sparkbeam check my_pipeline.py -- --input books.txt
      sparkbeam check --json pipelines/
    """  # noqa: D301 - click reads the character.
    from sparkbeam.cli import checking

    at = next((at for at, word in enumerate(words) if word.startswith("-")), len(words))
    if not at:
        raise click.UsageError("Missing argument 'PROGRAM'.")
    arguments = words[at + (words[at : at + 1] == ("--",)) :]
    for word in words[:at]:
        Program(word, is_module, ()).check(folders=True)
    programs = [
        program
        for word in words[:at]
        for program in ([word] if is_module else checking.programs_in(Path(word)))
    ]
    if not programs:
        raise click.BadParameter("No Python file in it mentions Beam.", param_hint="PROGRAM")
    found = checking.verdicts(programs, arguments, is_module=is_module, seconds=timeout)
    rows = [row for each in found for row in each]
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    lines = [json.dumps(row.content()) for row in rows] if as_json else checking.table(rows, width)
    click.echo("\n".join(lines))
    if any(row.is_bad for row in rows):
        raise SystemExit(1)


@main.command(short_help="Show how a Beam program would run on Spark.", **_OVER_PROGRAM)
@_AS_MODULE
@_save_to_files(
    "Also write the explanation to FILE: the stages as a Mermaid flowchart (.mmd), stages and "
    "text (.html) or the text alone (.txt). Repeatable."
)
@_PROGRAM
@_ARGUMENTS
def explain(
    program: str, arguments: tuple[str, ...], is_module: bool, files: tuple[Path, ...]
) -> None:
    """Show how the Beam program PROGRAM would run on Spark.

    PROGRAM is a file such as my_pipeline.py or, with -m, a module. It runs to
    its end with the ARGUMENTS, including all code outside of pipelines. But no
    pipeline is executed, whichever runner the program chooses. Instead, each
    pipeline prints

    \b
      - your transforms, and the stages that run them,
      - the stages, and the exchanges between them,
      - Spark's own plan of each query.

    For the program, each pipeline has succeeded, without metrics and output.
    Spark's plan needs a session: one is started if the program has none.

    \b
    Examples:
      sparkbeam explain my_pipeline.py --input books.txt
      sparkbeam explain --save plan.html my_pipeline.py --input books.txt
      sparkbeam explain -m my_package.my_pipeline --input books.txt
    """  # noqa: D301 - click reads the character.
    from sparkbeam.explain.explanation import check_suffix

    _check_targets(files, check_suffix)
    _save(Program(program, is_module, arguments).explanations(), files)


@main.command(
    short_help="Run a Beam program on Spark and report on its pipelines.", **_OVER_PROGRAM
)
@_AS_MODULE
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON for each pipeline.")
@_save_to_files(
    "Also write the report to FILE: the stages with their figures as a Mermaid flowchart (.mmd), "
    "stages and text (.html), the text alone (.txt) or JSON (.json). Repeatable."
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
    """Run the Beam program PROGRAM on Spark and report on its pipelines.

    PROGRAM is a file such as my_pipeline.py or, with -m, a module. It runs with
    the ARGUMENTS, and each of its pipelines runs on Spark, whichever runner it
    chooses. The report shows for each step the elements in and out, time, bytes
    and columnar elements, and for Spark's stages the shuffled and spilled bytes.
    The exit code is 1 if the program or a pipeline fails.

    \b
    Examples:
      sparkbeam report my_pipeline.py --input books.txt
      sparkbeam report --save report.html my_pipeline.py --input books.txt
    """  # noqa: D301 - click reads the character.
    from sparkbeam.explain.report import check_suffix

    _check_targets(files, check_suffix)
    reports, ending = Program(program, is_module, arguments).reports()
    for each in reports:
        click.echo(json.dumps(each.content()) if as_json else f"{each}\n")
    _save(reports, files)
    if ending is not None or any(each.problem for each in reports):
        raise SystemExit(1)


@main.command(short_help="Drain a streaming pipeline: end its sources, then stop it.")
@click.argument("location")
def drain(location: str) -> None:
    """Drain the streaming pipeline with the checkpoint LOCATION.

    Its sources end. It processes the elements that it has read, fires all windows
    and timers, and stops with the state DRAINED. If it is not running, this happens
    at its next start. A drained checkpoint cannot be reused: use another one.
    """
    from sparkbeam.streaming.execution import ask_to_drain

    asked = ask_to_drain(location)
    click.echo(
        "The pipeline ends its sources, now if it is running, else at its next start."
        if asked
        else "The pipeline has already ended: there is nothing to drain."
    )


@main.command(short_help="Examine a Spark session and its workers.")
@click.option("--spark_master", metavar="URL", help="Spark master. Default: local[*].")
@click.option("--spark_connect", metavar="URL", help="Spark Connect server.")
@click.option("--spark_conf", metavar="KEY=VALUE", multiple=True, help="A setting. Repeatable.")
@click.option("--spark_py_files", metavar="PATH", multiple=True, help="A module file. Repeatable.")
@click.option("--checkpoint_location", metavar="PATH", help="A folder that all workers must share.")
@click.option(
    "--reach",
    metavar="HOST:PORT",
    multiple=True,
    help="An address that the workers must reach. Repeatable.",
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
    """Examine what a Spark session can do and what its workers have.

    Runs small queries, and leaves nothing behind. Capabilities that the session lacks have the same
    names as in the log of a pipeline, with the consequence. Workers should have the same Python and
    packages as the driver, and the modules that PROGRAM imports. PROGRAM itself is not run.

    The exit code is 1 if pipelines cannot run there, or if something that you named is not right.

    \b
    Examples:
      sparkbeam doctor --spark_connect sc://host:15002 my_pipeline.py
      sparkbeam doctor --spark_master spark://host:7077 --checkpoint_location /data/checkpoint
    """  # noqa: D301 - click reads the character.
    from sparkbeam.inspection import doctor as examination

    addresses = {}
    for text in reach:
        host, _, port = text.rpartition(":")
        if not host or not port.isdecimal() or int(port) > 65_535:
            raise click.BadParameter(f"{shown(text)} is not HOST:PORT.", param_hint="--reach")
        addresses[text] = host, int(port)
    try:
        modules = () if program is None else examination.modules_of(program)
    except (SyntaxError, ValueError) as error:
        raise click.BadParameter(
            f"{shown(str(program))} is not valid Python: {error}.", param_hint="PROGRAM"
        ) from None
    checks = []
    session = _session(options)
    of_session = examination.session_checks(session)
    of_workers = examination.worker_checks_of(session, modules, addresses, checkpoint_location)
    for subject, found in (("Session", of_session), ("Workers", of_workers)):
        part = list(found)
        checks += part
        if not as_json:
            click.echo(f"{subject}\n" + "\n".join(examination.check_lines(part)) + "\n")
    for check in checks if as_json else ():
        click.echo(json.dumps(asdict(check)))
    if any(check.state == examination.FAILS for check in checks):
        raise SystemExit(1)


@main.command(short_help="Check the health of a streaming pipeline.")
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON.")
@click.option(
    "--max_lag",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="How far the pipeline may be behind its sources. Default: no limit.",
)
@click.option(
    "--patience",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="How long a micro-batch may take, or be overdue. Default: a minute, or ten times the "
    "duration of the last one if that is longer.",
)
@click.argument("location")
def status(location: str, as_json: bool, max_lag: float | None, patience: float | None) -> None:
    """Check the health of the streaming pipeline with the checkpoint LOCATION.

    The exit code is 0 if it is starting, makes progress, is idle, has finished or is drained; 1 if
    it is stuck or behind by more than --max_lag, has failed or was cancelled, or has sent no
    heartbeat for half a minute; and 2 if there is no such pipeline or its checkpoint is damaged.
    """
    from sparkbeam.streaming.status import status as found_at

    found = found_at(location, max_lag=max_lag, patience=patience)
    click.echo(json.dumps(found.content()) if as_json else "\n".join(found.lines()))
    if not found.is_well:
        raise SystemExit(1)


@main.command(short_help="Show offsets, commits and watermarks of a checkpoint.")
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON.")
@click.argument("location")
def checkpoint(location: str, as_json: bool) -> None:
    """Show the progress of the streaming pipeline with the checkpoint LOCATION.

    Shows the last planned and the last committed micro-batch, the one that a restart repeats, the
    offsets of all sources, the watermarks of sources and steps, and what holds the lowest one back.
    The command changes nothing; the pipeline may be running.
    """
    from sparkbeam.streaming.checkpoint import checkpoint_content

    found = checkpoint_content(location)
    click.echo(json.dumps(found.content()) if as_json else "\n".join(found.lines()))


@main.command(short_help="Show the state of a step in a checkpoint.")
@click.option("--step", required=True, metavar="LABEL", help="The label of the step.")
@click.option("--key", metavar="KEY", help="Show one key. Default: all keys.")
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON for each entry.")
@click.option(
    "--program",
    metavar="PROGRAM",
    help="The program of the pipeline, for its coders. It runs to its end with the ARGUMENTS "
    "after '--', but no pipeline is executed.",
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

    Shows for each key its windows with accumulators or values, sessions, states, timers and waiting
    elements. A local Spark reads the state. The command changes nothing; the pipeline may be
    running. Beam's standard coders are known; rows and your own coders need --program. If other
    users may have written to the checkpoint, values whose coders could run code are shown as bytes.

    \b
    Examples:
      sparkbeam state /data/checkpoint --step Count
      sparkbeam state /data/checkpoint --step Count --key k1
      sparkbeam state /data/checkpoint --step Visits --program my_pipeline.py -- --streaming
    """  # noqa: D301 - click reads the character.
    from sparkbeam.inspection.stage_state import read_state
    from sparkbeam.inspection.state_reader import SparkStore
    from sparkbeam.streaming.checkpoint_files import absolute

    plan = None if program is None else Program(program, is_module, arguments).plan()
    if program is None and arguments:
        raise click.UsageError("ARGUMENTS require --program.")
    store = SparkStore(partial(_session, {"spark_conf": conf}), absolute(location))
    for found in read_state(location, store, plan).states(step, key):
        lines = map(json.dumps, found.content()) if as_json else found.lines()
        click.echo("\n".join(lines))


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


@main.command(short_help="Show a streaming pipeline on a live page.")
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

    The pipeline may run anywhere: the page shows watermarks, state and micro-batches from its
    checkpoint, and the steps, warnings and errors that its program writes there. It says if the
    program has ended or is gone. The command prints the address of the page; Ctrl-C ends it.
    """
    import threading

    from sparkbeam.observe.page import opening
    from sparkbeam.observe.page.watch import CheckpointView

    opening.check()
    view = CheckpointView(location)
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
    listed = list(pipelines)
    for file in files:
        for number, pipeline in enumerate(listed, start=1):
            # Further pipelines of a program are saved to plan-2.html, …
            name = file.name if number == 1 else f"{file.stem}-{number}{file.suffix}"
            pipeline.save(file.with_name(name))
            click.echo(f"Saved {file.with_name(name)}", err=True)
