"""The command ``sparkbeam nexmark``.

Beam, PySpark and the packages of reports are imported when a command runs, so that ``--help``
answers at once.
"""

from pathlib import Path
from typing import Any

import click

from beam_nexmark import ci_commands, commandline
from beam_nexmark.commandline import (
    EVENTS,
    HISTORY,
    OUTPUT,
    SETTINGS,
    check_target,
    configured,
    guarded,
    measured,
    selected,
    write_report,
)
from sparkbeam.common.command_errors import Number

_MAX_RATE = 1_000_000_000


class _Nexmark(click.Group):
    """Group whose command ``run`` is the default."""

    def parse_args(self, context: click.Context, arguments: list[str]) -> list[str]:
        if not arguments or arguments[0] not in {*self.commands, "-h", "--help"}:
            arguments = ["run", *arguments]
        return super().parse_args(context, arguments)

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except click.UsageError as error:
            # Without its context it is one line, not three more about the usage.
            raise click.UsageError(error.format_message()) from error

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        run.format_options(context, formatter)
        self.format_commands(context, formatter)


@click.group(cls=_Nexmark, short_help="Measure and check a runner with the Nexmark queries.")
def nexmark() -> None:
    """Measure and check a runner with the Nexmark queries.

    Runs queries over the events of an auction site and shows how fast they are
    and, with --check, whether the results are right. Other options, such as
    --spark_master, go to the runner. Runs are added to a history; 'report' draws
    it as a page.

    \b
    Examples:
      sparkbeam nexmark --check
      sparkbeam nexmark --query 3,9 --events 1000000 --repeat 3 --json runs.json
      sparkbeam nexmark --runner FnApiRunner --report nexmark.html
      sparkbeam nexmark ci --runners SparkRunner --tolerance 30
    """  # noqa: D301 - click reads the character.


@nexmark.command(
    context_settings={"ignore_unknown_options": True},
    short_help="Run queries; the default of 'sparkbeam nexmark'.",
)
@commandline.QUERY
@EVENTS
@SETTINGS
@click.option(
    "--runner",
    default="SparkRunner",
    show_default=True,
    help="SparkRunner (of sparkbeam), FnApiRunner, another name that Beam knows, or "
    "package.module.Class.",
)
@click.option(
    "--mode", type=click.Choice(["batch", "streaming"]), default="batch", show_default=True
)
@click.option(
    "--rate",
    type=Number(min=0.001, max=_MAX_RATE),
    metavar="EVENTS_PER_SECOND",
    help="With --mode streaming: events per second of wall-clock time.  [default: unlimited]",
)
@click.option("--sql", is_flag=True, help="Run the SQL form of the queries that have one.")
@commandline.repeats(1)
@click.option(
    "--json", "json_file", type=OUTPUT, metavar="FILE", help="Write JSON, a line per run."
)
@commandline.PAGE
@click.option("--check", "check_results", is_flag=True, help="Fail if a result is wrong.")
@HISTORY
@commandline.RUNNER_OPTIONS
@guarded
def run(
    queries: str,
    events: int,
    settings: tuple[str, ...],
    runner: str,
    mode: str,
    rate: float | None,
    sql: bool,
    repeat: int,
    json_file: Path | None,
    page: Path | None,
    check_results: bool,
    history: Path | None,
    options: tuple[str, ...],
) -> None:
    """Run queries and show times and results.

    Options that are not listed below go to the runner: --spark_master=local[4].
    """
    if rate is not None and mode != "streaming":
        raise click.BadParameter(
            "Only a stream has a rate: add --mode streaming.", param_hint="--rate"
        )
    configuration = configured(events, settings)
    for option, file in (("--json", json_file), ("--report", page)):
        check_target(option, file)
    from beam_nexmark import history as past
    from beam_nexmark import tables
    from beam_nexmark.engine import prepared
    from beam_nexmark.measure import Measurement

    chosen = selected(queries, sql=sql)
    file = history or past.default_path()
    past.append([], file)
    engine = prepared(runner, options, streaming=mode == "streaming")
    measurement = Measurement(engine, configuration, check=check_results, rate=rate, sql=sql)
    runs = measured(measurement, chosen, repeat, file)
    tables.show_runs(runs)
    click.echo(f"Added to the history: {file}", err=True)
    if json_file:
        past.write(runs, json_file)
        click.echo(f"Written: {json_file}", err=True)
    if page:
        write_report(file, page)
    if not all(run.is_right for run in runs):
        raise click.exceptions.Exit(1)


@nexmark.command(short_help="Draw the history as an HTML page.")
@HISTORY
@click.argument("output", type=OUTPUT, default="nexmark.html")
@guarded
def report(history: Path | None, output: Path) -> None:
    """Write the page OUTPUT about all runs of the history; nexmark.html by default.

    It has runtimes over commits with what changed, figures by query, runner
    and version, and what runs where. It works offline.
    """
    from beam_nexmark import history as past

    check_target("OUTPUT", output)
    write_report(history or past.default_path(), output)


@nexmark.command(short_help="Write the events to a file.")
@EVENTS
@SETTINGS
@click.option(
    "--format", "form", type=click.Choice(["json", "parquet"]), default="json", show_default=True
)
@click.argument("output", type=OUTPUT)
@guarded
def generate(events: int, settings: tuple[str, ...], form: str, output: Path) -> None:
    """Write the events to OUTPUT: JSON lines as Beam reads them, or Parquet."""
    configuration = configured(events, settings)
    from beam_nexmark import event_files

    check_target("OUTPUT", output)
    write = event_files.write_json if form == "json" else event_files.write_parquet
    try:
        write(configuration, output)
    except OSError as error:
        raise click.ClickException(f"Cannot write '{output}': {error.strerror}.") from error


nexmark.add_command(ci_commands.ci)
