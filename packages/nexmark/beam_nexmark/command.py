"""The command ``sparkbeam nexmark``.

Beam, PySpark and the packages of reports are imported when a command runs, so that ``--help``
answers at once.
"""

import logging
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from beam_nexmark import commandline
from beam_nexmark.commandline import (
    EVENTS,
    HISTORY,
    OUTPUT,
    SETTINGS,
    check_target,
    configured,
    finish,
    measured,
    selected,
    write_report,
)
from sparkbeam.common.arguments import shown
from sparkbeam.common.command_errors import Number, usage_error
from sparkbeam.errors import SparkBeamError

if TYPE_CHECKING:
    from beam_nexmark.record import QueryRun

_MAX_RATE = 1_000_000_000
_MODES = ("batch", "streaming")


class _Nexmark(click.Group):
    """Group whose command ``run`` is the default."""

    def parse_args(self, context: click.Context, arguments: list[str]) -> list[str]:
        if not arguments or arguments[0] not in {*self.commands, "-h", "--help"}:
            arguments = ["run", *arguments]
        return super().parse_args(context, arguments)

    def invoke(self, context: click.Context) -> Any:
        # Beam warns of much that is no concern of those who measure.
        usual = logging.root.manager.disable
        logging.disable(logging.WARNING)
        try:
            return super().invoke(context)
        except click.UsageError as error:
            # Without its context it is one line, not three more about the usage.
            raise click.UsageError(error.format_message()) from error
        except SparkBeamError as error:
            raise usage_error(error) from error
        finally:
            logging.disable(usual)

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
@click.option("--mode", type=click.Choice(_MODES), default="batch", show_default=True)
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
    if json_file:
        past.write(runs, json_file)
        click.echo(f"Written: {json_file}", err=True)
    finish(file, page, is_right=all(run.is_right for run in runs))


@nexmark.command(
    context_settings={"ignore_unknown_options": True},
    short_help="Add all queries, modes and runners to the history.",
)
@commandline.QUERY
@EVENTS
@SETTINGS
@click.option(
    "--runners",
    default="SparkRunner",
    show_default=True,
    help="Comma-separated names, each as for --runner of 'sparkbeam nexmark'.",
)
@click.option(
    "--modes", default=",".join(_MODES), show_default=True, help="batch, streaming, or both."
)
@click.option("--sql", is_flag=True, help="Also run the queries in SQL on SparkRunner.")
@commandline.repeats(3)
@click.option(
    "--tolerance",
    type=Number(min=0, max=1_000_000),
    metavar="PERCENT",
    help="Fail if a query is slower than on earlier builds by more than this, and two more "
    "runs confirm it.  [default: no limit]",
)
@commandline.PAGE
@HISTORY
@commandline.RUNNER_OPTIONS
def ci(
    queries: str,
    events: int,
    settings: tuple[str, ...],
    runners: str,
    modes: str,
    sql: bool,
    repeat: int,
    tolerance: float | None,
    page: Path | None,
    history: Path | None,
    options: tuple[str, ...],
) -> None:
    """Run queries in all modes on some runners, check them, and add them to the history.

    Each run is stored with the commit of sparkbeam and the machine, for 'report'. The
    exit code is 1 if a query fails, has a wrong result or is slower than --tolerance
    allows. Options that are not listed below go to each runner.
    """
    wanted = _listed(modes, "--modes")
    for mode in wanted:
        if mode not in _MODES:
            raise click.BadParameter(
                f"{shown(mode)} is not a mode: use batch, streaming, or both.", param_hint="--modes"
            )
    names = _listed(runners, "--runners")
    configuration = configured(events, settings)
    check_target("--report", page)
    from beam_nexmark import history as past
    from beam_nexmark import tables
    from beam_nexmark.changes import percent, slowdown
    from beam_nexmark.engine import prepared
    from beam_nexmark.measure import Measurement
    from beam_nexmark.queries.sql import SQL_QUERIES
    from beam_nexmark.record import OURS

    chosen = selected(queries)
    in_sql = [SQL_QUERIES[one.number] for one in chosen if one.number in SQL_QUERIES]
    file = history or past.default_path()
    past.append([], file)
    known = past.read(file)

    def growth(runs: "Sequence[QueryRun]") -> float | None:
        return None if tolerance is None else slowdown(known, runs, tolerance / 100)

    ready = [
        (runner, mode, prepared(runner, options, streaming=mode != "batch"))
        for runner in names
        for mode in wanted
    ]
    is_right = True
    for (runner, mode, engine), is_sql in product(ready, (False, True)):
        some = in_sql if is_sql else chosen
        if is_sql and not (sql and some and engine.name == OURS):
            continue
        measurement = Measurement(engine, configuration, check=True, sql=is_sql)
        mode += ", in SQL" if is_sql else ""
        click.echo(f"{runner}, {mode}:", err=True)
        runs = measured(measurement, some, repeat, file, lambda runs: growth(runs) is not None)
        click.echo(f"{runner}, {mode}")
        tables.show_runs(runs)
        is_right = is_right and all(run.is_right for run in runs)
        for number in dict.fromkeys(run.query for run in runs):
            grown = growth([run for run in runs if run.query == number])
            if grown is not None:
                click.echo(f"q{number} is slower than on earlier builds: {percent(grown)}")
                is_right = False
    finish(file, page, is_right=is_right)


def _listed(text: str, option: str) -> list[str]:
    """Return the distinct names in an option.

    Raises:
        BadParameter: there is none.
    """
    names = list(dict.fromkeys(name for part in text.split(",") if (name := part.strip())))
    if not names:
        raise click.BadParameter("The list is empty.", param_hint=option)
    return names


@nexmark.command(short_help="Draw the history as an HTML page.")
@HISTORY
@click.argument("output", type=OUTPUT, default="nexmark.html")
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
