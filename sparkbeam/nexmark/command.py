"""The command ``sparkbeam nexmark``.

Beam, PySpark and the packages of the extra ``nexmark`` are imported when a
command runs, so that ``--help`` answers at once and without them.
"""

import functools
import logging
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sparkbeam.arguments import shown
from sparkbeam.errors import SparkBeamError
from sparkbeam.usage import File, Number, usage_error

if TYPE_CHECKING:
    from sparkbeam.nexmark.configuration import Configuration
    from sparkbeam.nexmark.measure import Measurement
    from sparkbeam.nexmark.queries import Query
    from sparkbeam.nexmark.record import Run

_EXTRA = ("altair", "jinja2", "platformdirs", "psutil", "vl_convert")
_MAX_RATE = 1_000_000_000
_OUTPUT = File(dir_okay=False, writable=True, path_type=Path)
_INPUT = File(exists=True, dir_okay=False, path_type=Path)
_HISTORY = click.option(
    "--history",
    metavar="FILE",
    type=_OUTPUT,
    help="The SQLite file with all runs.  [default: nexmark.db in your data folder]",
)
_EVENTS = click.option(
    "--events", type=click.IntRange(min=1), default=100_000, show_default=True, help="How many."
)
_SETTINGS = click.option(
    "--set",
    "settings",
    metavar="NAME=NUMBER",
    multiple=True,
    help="A setting of the generator or of a query, such as window_size=20; repeatable. "
    "A wrong name lists all.",
)


class _Nexmark(click.Group):
    """A group whose command ``run`` needs no name."""

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


def _guarded(command: Callable[..., None]) -> Callable[..., None]:
    """Tells what is wrong, a missing extra first of all, on one line and without noise."""

    @functools.wraps(command)
    def guarded(*args: Any, **kwargs: Any) -> None:
        missing = [name for name in _EXTRA if find_spec(name) is None]
        if missing:
            raise click.ClickException(
                f"This needs {', '.join(missing)}: run pip install 'sparkbeam[nexmark]'."
            )
        # Beam warns of much that is no concern of those who measure.
        usual = logging.root.manager.disable
        logging.disable(logging.WARNING)
        try:
            command(*args, **kwargs)
        except SparkBeamError as error:
            raise usage_error(error) from error
        finally:
            logging.disable(usual)

    return guarded


@click.group(cls=_Nexmark, short_help="Measure and check a runner with the Nexmark queries.")
def nexmark() -> None:
    """Measure and check a runner with the Nexmark queries.

    Runs queries over the events of an auction site, tells how fast and, with
    --check, whether right. Other options, such as --spark_master, go to the
    runner. Runs are kept in a history, from which 'report' draws a page.

    \b
    Examples:
      sparkbeam nexmark --check
      sparkbeam nexmark --query 3,9 --events 1000000 --repeat 3 --json new.json
      sparkbeam nexmark --runner FnApiRunner --report nexmark.html
      sparkbeam nexmark compare old.json new.json
    """  # noqa: D301 - click reads the character.


@nexmark.command(
    context_settings={"ignore_unknown_options": True},
    short_help="Run queries; 'sparkbeam nexmark' alone means this.",
)
@click.option(
    "--query", "queries", default="all", show_default=True, help="Numbers such as 0,3,11, or all."
)
@_EVENTS
@_SETTINGS
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
    help="With --mode streaming: how many events happen in a second of the clock.  "
    "[default: as many as can be]",
)
@click.option(
    "--repeat",
    type=click.IntRange(min=1, max=1_000),
    default=1,
    show_default=True,
    help="Runs of each query; the table has their median.",
)
@click.option("--json", "json_file", type=_OUTPUT, metavar="FILE", help="Write one object a run.")
@click.option("--report", "page", type=_OUTPUT, metavar="FILE", help="Write an HTML page.")
@click.option("--check", "check_results", is_flag=True, help="Fail if a result is wrong.")
@_HISTORY
@click.argument("options", nargs=-1, type=click.UNPROCESSED, metavar="[RUNNER OPTIONS]...")
@_guarded
def run(
    queries: str,
    events: int,
    settings: tuple[str, ...],
    runner: str,
    mode: str,
    rate: float | None,
    repeat: int,
    json_file: Path | None,
    page: Path | None,
    check_results: bool,
    history: Path | None,
    options: tuple[str, ...],
) -> None:
    """Run queries and tell how long they took and what came out.

    Options that are not listed below go to the runner: --spark_master=local[4].
    """
    if rate is not None and mode != "streaming":
        raise click.BadParameter(
            "Only a stream has a rate: add --mode streaming.", param_hint="--rate"
        )
    configuration = _configured(events, settings)
    for option, file in (("--json", json_file), ("--report", page)):
        _check_target(option, file)
    from sparkbeam.nexmark import display, record
    from sparkbeam.nexmark import history as past
    from sparkbeam.nexmark.engine import prepared
    from sparkbeam.nexmark.measure import Measurement

    selected = _selected(queries)
    file = history or past.default_path()
    past.append([], file)
    engine = prepared(runner, options, streaming=mode == "streaming")
    measurement = Measurement(engine, configuration, check=check_results, rate=rate)
    runs = _measured(measurement, selected, repeat, file)
    display.show_runs(runs)
    click.echo(f"Added to the history: {file}", err=True)
    if json_file:
        record.write_json(runs, json_file)
        click.echo(f"Written: {json_file}", err=True)
    if page:
        _write_report(file, page)
    if not all(run.is_right for run in runs):
        raise click.exceptions.Exit(1)


def _measured(
    measurement: "Measurement", queries: "list[Query]", repeat: int, history: Path
) -> "list[Run]":
    """Runs queries, each so many times in a row; each run is in the history as soon as it ends."""
    from sparkbeam.nexmark import display
    from sparkbeam.nexmark import history as past

    runs: list[Run] = []
    with display.Progress(len(queries) * repeat) as progress:
        measurement.warm_up()
        for query in queries:
            for number in range(1, repeat + 1):
                progress.start(query.number, query.name, number)
                runs.append(measurement.run(query, number))
                past.append(runs[-1:], history)
                progress.finish(runs[-1])
    return runs


@nexmark.command(short_help="Draw the history as an HTML page.")
@_HISTORY
@click.argument("output", type=_OUTPUT, default="nexmark.html")
@_guarded
def report(history: Path | None, output: Path) -> None:
    """Write the page OUTPUT about all runs of the history; nexmark.html by default.

    It has box plots of runtime and throughput by query, runner and version,
    result sizes over time, and what runs where. It works offline.
    """
    from sparkbeam.nexmark import history as past

    _check_target("OUTPUT", output)
    _write_report(history or past.default_path(), output)


@nexmark.command(short_help="Fail on a changed result or a slowdown.")
@click.option(
    "--tolerance",
    type=Number(min=0, max=1_000_000),
    default=10.0,
    show_default=True,
    help="How many percent the median may grow.",
)
@click.argument("old", type=_INPUT)
@click.argument("new", type=_INPUT)
@_guarded
def compare(old: Path, new: Path, tolerance: float) -> None:
    """Compare two files of --json, query by query: NEW with OLD.

    Ends with 1 if a query has another result, fails where it ran, or became
    slower: each of its new runs takes longer than each of the old ones, and
    the median grew by more than the tolerance (by 50 % at least if a file has
    fewer than three runs of it, as its noise is unknown then).
    """
    from sparkbeam.nexmark import display
    from sparkbeam.nexmark.compare import compared
    from sparkbeam.nexmark.record import read_json

    comparisons = compared(read_json(old), read_json(new), tolerance / 100)
    display.show_comparisons(comparisons)
    if any(comparison.verdict.is_regression for comparison in comparisons):
        raise click.exceptions.Exit(1)


@nexmark.command(short_help="Write the events to a file.")
@_EVENTS
@_SETTINGS
@click.option(
    "--format", "form", type=click.Choice(["json", "parquet"]), default="json", show_default=True
)
@click.argument("output", type=_OUTPUT)
@_guarded
def generate(events: int, settings: tuple[str, ...], form: str, output: Path) -> None:
    """Write the events to OUTPUT: JSON lines as Beam reads them, or Parquet."""
    configuration = _configured(events, settings)
    from sparkbeam.nexmark import files

    _check_target("OUTPUT", output)
    write = files.write_json if form == "json" else files.write_parquet
    try:
        write(configuration, output)
    except OSError as error:
        raise click.ClickException(f"Cannot write '{output}': {error.strerror}.") from error


def _selected(text: str) -> "list[Query]":
    """The queries that ``--query`` names.

    Raises:
        BadParameter: there is no such query.
    """
    from sparkbeam.nexmark.queries import QUERIES

    if text == "all":
        return list(QUERIES.values())
    names = [name.strip() for name in text.split(",")]
    known = {str(number) for number in QUERIES}
    unknown = [name for name in names if (name.lstrip("0") or name[:1]) not in known]
    if unknown:
        raise click.BadParameter(
            f"There is no query {shown(unknown[0])}: use numbers from {min(QUERIES)} to "
            f"{max(QUERIES)} with commas between them, or all.",
            param_hint="--query",
        )
    return [QUERIES[number] for number in dict.fromkeys(map(int, names))]


def _configured(events: int, settings: Iterable[str]) -> "Configuration":
    """The configuration of ``--events`` and ``--set``.

    Raises:
        BadParameter: a setting has another form.
        ConfigurationError: it has another name, or a value that cannot work.
    """
    from sparkbeam.nexmark.configuration import Configuration

    pairs = {}
    for setting in settings:
        name, sign, value = setting.partition("=")
        if not sign:
            raise click.BadParameter(f"{shown(setting)} is not NAME=NUMBER.", param_hint="--set")
        if name == "events":
            raise click.BadParameter("Use --events for the events.", param_hint="--set")
        pairs[name] = value
    return Configuration.parsed({**pairs, "events": str(events)})


def _check_target(option: str, file: Path | None) -> None:
    """Refuses what could not be written, before any work is done."""
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


def _write_report(history: Path, output: Path) -> None:
    from sparkbeam.nexmark import history as past
    from sparkbeam.nexmark.report import render

    render(past.read(history), output)
    click.echo(f"Written: {output} (open it in a browser)", err=True)
