"""Shared parts of the commands of ``sparkbeam nexmark``: options, checks, measuring."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sparkbeam.common.arguments import shown
from sparkbeam.common.command_errors import File

if TYPE_CHECKING:
    from beam_nexmark.configuration import Configuration
    from beam_nexmark.measure import Measurement
    from beam_nexmark.queries import Query
    from beam_nexmark.record import QueryRun

OUTPUT = File(dir_okay=False, writable=True, path_type=Path)
HISTORY = click.option(
    "--history",
    metavar="FILE",
    type=OUTPUT,
    help="The file with all runs, as JSON lines.  [default: nexmark.jsonl in your data folder]",
)
EVENTS = click.option(
    "--events",
    type=click.IntRange(min=1),
    default=100_000,
    show_default=True,
    help="Number of events.",
)
QUERY = click.option(
    "--query", "queries", default="all", show_default=True, help="Numbers such as 0,3,11, or all."
)
PAGE = click.option("--report", "page", type=OUTPUT, metavar="FILE", help="Write an HTML page.")
RUNNER_OPTIONS = click.argument(
    "options", nargs=-1, type=click.UNPROCESSED, metavar="[RUNNER OPTIONS]..."
)
SETTINGS = click.option(
    "--set",
    "settings",
    metavar="NAME=NUMBER",
    multiple=True,
    help="A setting of the generator or of a query, such as window_size=20; repeatable. "
    "An unknown name lists all.",
)


def measured(
    measurement: "Measurement",
    queries: "list[Query]",
    repeat: int,
    history: Path,
    is_slow: "Callable[[Sequence[QueryRun]], bool]" = lambda runs: False,
) -> "list[QueryRun]":
    """Run queries repeatedly; store each run in the history as soon as it ends.

    Args:
        repeat: the number of runs of each.
        is_slow: judges the runs of a query; as long as they are slow, a few more confirm it.
    """
    from beam_nexmark import history as past
    from beam_nexmark.changes import CONFIRMATIONS
    from beam_nexmark.tables import RunProgress

    runs: list[QueryRun] = []
    with RunProgress(len(queries) * repeat) as progress:
        measurement.warm_up()
        for query in queries:
            first = len(runs)
            for number in range(1, repeat + 1 + CONFIRMATIONS):
                if number > repeat and not is_slow(runs[first:]):
                    break
                progress.begun(query.number, query.name, number)
                runs.append(measurement.run(query, number))
                past.append(runs[-1:], history)
                progress.ended(runs[-1])
    return runs


def selected(text: str, *, sql: bool = False) -> "list[Query]":
    """Return the queries named by ``--query``.

    Args:
        text: their numbers, or ``all``.

    Raises:
        BadParameter: a query does not exist.
    """
    from beam_nexmark.queries import QUERIES

    queries = QUERIES
    if sql:
        from beam_nexmark.queries.sql import SQL_QUERIES as queries  # noqa: N811
    if text == "all":
        return list(queries.values())
    names = [name.strip() for name in text.split(",")]
    known = {str(number) for number in queries}
    unknown = [name for name in names if (name.lstrip("0") or name[:1]) not in known]
    if unknown:
        numbers = f"numbers from {min(queries)} to {max(queries)}"
        if sql:
            numbers = f"with --sql {', '.join(map(str, queries))}"
        raise click.BadParameter(
            f"Unknown query {shown(unknown[0])}: use {numbers} separated by commas, or all.",
            param_hint="--query",
        )
    return [queries[number] for number in dict.fromkeys(map(int, names))]


def configured(events: int, settings: Iterable[str]) -> "Configuration":
    """Return the configuration of ``--events`` and ``--set``.

    Raises:
        BadParameter: a setting is malformed.
        ConfigurationError: a setting is unknown, or its value is invalid.
    """
    from beam_nexmark.configuration import Configuration

    pairs = {}
    for setting in settings:
        name, sign, value = setting.partition("=")
        if not sign:
            raise click.BadParameter(f"{shown(setting)} is not NAME=NUMBER.", param_hint="--set")
        if name == "events":
            raise click.BadParameter("Use --events for the events.", param_hint="--set")
        pairs[name] = value
    return Configuration.parsed({**pairs, "events": str(events)})


def repeats(default: int) -> Callable[..., Any]:
    """Return the option ``--repeat``."""
    return click.option(
        "--repeat",
        type=click.IntRange(min=1, max=1_000),
        default=default,
        show_default=True,
        help="Runs of each query; the table has their median.",
    )


def check_target(option: str, file: Path | None) -> None:
    """Refuse a file that cannot be written, before any work is done."""
    if file is None or (file.exists() and not file.is_file()):
        return
    if not file.absolute().parent.is_dir():
        raise click.BadParameter(f"There is no folder '{file.parent}'.", param_hint=option)
    is_new = not file.exists()
    try:
        file.open("ab").close()
    except OSError as error:
        raise click.BadParameter(
            f"Cannot write '{file}': {error.strerror}.", param_hint=option
        ) from error
    if is_new:
        file.unlink()


def write_report(history: Path, output: Path) -> None:
    """Write the report of a history, and print its path."""
    from beam_nexmark import history as past
    from beam_nexmark.report import render

    render(past.read(history), output)
    click.echo(f"Written: {output} (open it in a browser)", err=True)


def finish(history: Path, page: Path | None, *, is_right: bool) -> None:
    """Write the report, and end with exit code 1 unless all was right."""
    click.echo(f"Added to the history: {history}", err=True)
    if page is not None:
        write_report(history, page)
    if not is_right:
        raise click.exceptions.Exit(1)
