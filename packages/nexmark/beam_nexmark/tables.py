"""Output of ``sparkbeam nexmark``: progress on standard error, tables on standard output."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from types import TracebackType

from rich import progress
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from beam_nexmark.record import PASSED, QueryRun, median_seconds

_FILE_WIDTH = 140
_DIGEST_CHARACTERS = 12


class Progress:
    """A line for each finished run and, on a terminal, a bar below them."""

    def __init__(self, total: int) -> None:
        console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._bar = progress.Progress(
            progress.SpinnerColumn(),
            progress.TextColumn("{task.description}"),
            progress.BarColumn(bar_width=20),
            progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("warming up", total=total)

    def __enter__(self) -> "Progress":
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def start(self, number: int, name: str, repeat: int) -> None:
        """Show the run that begins."""
        self._bar.update(self._task, description=f"q{number} {name}, run {repeat}")

    def finish(self, run: QueryRun) -> None:
        """Show the outcome of the run."""
        if run.seconds is None:
            text = f"[red]failed[/]: {escape(run.failure or '')}"
        else:
            text = f"{run.seconds:.2f} s, {run.results:,} results"
            if run.checked is not None:
                text += ", right" if run.checked == PASSED else ", [red]wrong[/]"
        self._bar.console.print(f"q{run.query} {run.name}: {text}")
        self._bar.advance(self._task)


def show_runs(runs: Iterable[QueryRun]) -> None:
    """Print one row per query: the median of its runs, and the last run's result."""
    table = _table(
        "query",
        "name",
        ">events",
        ">seconds",
        ">events/s",
        ">results",
        "digest",
        ">peak MB",
        "check",
    )
    groups: dict[int, list[QueryRun]] = defaultdict(list)
    for run in runs:
        groups[run.query].append(run)
    for group in groups.values():
        table.add_row(*_row(group))
    console = _console()
    console.print(table)
    problems = dict.fromkeys(
        (run.query, run.name, run.failure or run.checked or "")
        for group in groups.values()
        for run in group
        if not run.is_right
    )
    for query, name, problem in problems:
        console.print(f"[red]q{query} {escape(name)}[/]: {escape(problem)}", soft_wrap=True)


def _row(group: Sequence[QueryRun]) -> list[str]:
    last = group[-1]
    head = [str(last.query), last.name, f"{last.events:,}"]
    seconds = median_seconds(group)
    if seconds is None:
        return [*head, "[red]failed[/]"]
    ended = [run for run in group if run.seconds is not None]
    return [
        *head,
        _seconds(ended),
        f"{last.events / seconds:,.0f}",
        f"{ended[-1].results:,}",
        (ended[-1].digest or "")[:_DIGEST_CHARACTERS],
        f"{max(run.peak_memory or 0 for run in ended) / 1e6:,.0f}",
        (last.checked or "") if all(run.is_right for run in group) else "[red]wrong[/]",
    ]


def _seconds(runs: Iterable[QueryRun]) -> str:
    """Format the median, with the range of several runs."""
    times = [run.seconds for run in runs if run.seconds is not None]
    if not times:
        return ""
    spread = f" ({min(times):.2f}-{max(times):.2f})" if len(times) > 1 else ""
    return f"{median_seconds(runs):.2f}{spread}"


def _table(*columns: str) -> Table:
    """Return a plain table; ``>`` marks columns of numbers."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        is_number = column.startswith(">")
        table.add_column(
            column.removeprefix(">"), justify="right" if is_number else "left", no_wrap=is_number
        )
    return table


def _console() -> Console:
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_FILE_WIDTH)
