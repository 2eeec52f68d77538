"""The command for tracking Nexmark over time, ``sparkbeam nexmark ci``."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from beam_nexmark import commandline
from beam_nexmark.commandline import (
    check_target,
    configured,
    guarded,
    measured,
    selected,
    write_report,
)
from sparkbeam.common.arguments import shown
from sparkbeam.common.command_errors import Number

if TYPE_CHECKING:
    from beam_nexmark.record import QueryRun

_MODES = ("batch", "streaming")
_REPEATS = 3


@click.command(
    context_settings={"ignore_unknown_options": True},
    short_help="Add all queries, modes and runners to the history.",
)
@commandline.QUERY
@commandline.EVENTS
@commandline.SETTINGS
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
@commandline.repeats(_REPEATS)
@click.option(
    "--tolerance",
    type=Number(min=0, max=1_000_000),
    metavar="PERCENT",
    help="Fail if a query is slower than on earlier builds by more than this, and two more "
    "runs confirm it.  [default: no limit]",
)
@commandline.PAGE
@commandline.HISTORY
@commandline.RUNNER_OPTIONS
@guarded
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
    wanted = _checked_modes(modes)
    names = _listed(runners, "--runners")
    configuration = configured(events, settings)
    check_target("--report", page)
    from beam_nexmark import history as past
    from beam_nexmark import tables
    from beam_nexmark.changes import percent
    from beam_nexmark.engine import prepared
    from beam_nexmark.gate import slowdown
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
    forms = [
        (runner, mode, engine, is_sql)
        for runner, mode, engine in ready
        for is_sql in ([False, True] if sql and in_sql and engine.name == OURS else [False])
    ]
    is_right = True
    for runner, mode, engine, is_sql in forms:
        measurement = Measurement(engine, configuration, check=True, sql=is_sql)
        mode += ", in SQL" if is_sql else ""
        click.echo(f"{runner}, {mode}:", err=True)
        runs = measured(
            measurement,
            in_sql if is_sql else chosen,
            repeat,
            file,
            lambda runs: growth(runs) is not None,
        )
        click.echo(f"{runner}, {mode}")
        tables.show_runs(runs)
        is_right = is_right and all(run.is_right for run in runs)
        for number in dict.fromkeys(run.query for run in runs):
            grown = growth([run for run in runs if run.query == number])
            if grown is not None:
                click.echo(f"q{number} is slower than on earlier builds: {percent(grown)}")
                is_right = False
    click.echo(f"Added to the history: {file}", err=True)
    if page:
        write_report(file, page)
    if not is_right:
        raise click.exceptions.Exit(1)


def _checked_modes(given: str) -> list[str]:
    modes = _listed(given, "--modes")
    for mode in modes:
        if mode not in _MODES:
            raise click.BadParameter(
                f"{shown(mode)} is not a mode: use batch, streaming, or both.", param_hint="--modes"
            )
    return modes


def _listed(text: str, option: str) -> list[str]:
    """Return the distinct names in an option.

    Raises:
        BadParameter: there is none.
    """
    names = list(dict.fromkeys(name for part in text.split(",") if (name := part.strip())))
    if not names:
        raise click.BadParameter("The list is empty.", param_hint=option)
    return names
