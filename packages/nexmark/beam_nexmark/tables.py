"""Output of ``sparkbeam nexmark``: progress on standard error, tables on standard output."""

from collections.abc import Iterable
from itertools import groupby

from rich import progress
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from beam_nexmark.record import PASSED, QueryRun, median_seconds

_FILE_WIDTH = 140
_DIGEST_CHARACTERS = 12


class RunProgress(progress.Progress):
    """A line for each finished run and, on a terminal, a bar below them."""

    def __init__(self, total: int) -> None:
        console = Console(stderr=True, highlight=False, soft_wrap=True)
        super().__init__(
            progress.SpinnerColumn(),
            "{task.description}",
            progress.BarColumn(bar_width=20),
            progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self.add_task("warming up", total=total)

    def begun(self, number: int, name: str, repeat: int) -> None:
        """Show the run that begins."""
        self.update(self._task, description=f"q{number} {name}, run {repeat}")

    def ended(self, run: QueryRun) -> None:
        """Show the outcome of the run."""
        if run.seconds is None:
            text = f"[red]failed[/]: {escape(run.failure or '')}"
        else:
            text = f"{run.seconds:.2f} s, {run.results:,} results"
            if run.checked is not None:
                text += ", right" if run.checked == PASSED else ", [red]wrong[/]"
        self.console.print(f"q{run.query} {run.name}: {text}")
        self.advance(self._task)


def show_runs(runs: Iterable[QueryRun]) -> None:
    """Print one row per query: the median of its runs, and the last run's result.

    Args:
        runs: those of a query follow each other.
    """
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column, is_number in _COLUMNS.items():
        table.add_column(column, justify="right" if is_number else "left", no_wrap=is_number)
    listed = list(runs)
    for _, group in groupby(listed, lambda run: run.query):
        table.add_row(*_row([*group]))
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=_FILE_WIDTH)
    console.print(table)
    problems = [
        f"[red]q{run.query} {escape(run.name)}[/]: {escape(run.failure or run.checked or '')}"
        for run in listed
        if not run.is_right
    ]
    for problem in dict.fromkeys(problems):
        console.print(problem, soft_wrap=True)


_COLUMNS = {
    **{"query": False, "name": False},
    **{"events": True, "seconds": True, "events/s": True, "results": True},
    **{"digest": False, "peak MB": True, "check": False},
}
"""The columns, and whether each has numbers."""


def _row(group: list[QueryRun]) -> list[str]:
    last = group[-1]
    head = [str(last.query), last.name, f"{last.events:,}"]
    middle = median_seconds(group)
    if middle is None:
        return [*head, "[red]failed[/]"]
    ended = [run for run in group if run.seconds is not None]
    times = [run.seconds or 0 for run in ended]
    spread = f" ({min(times):.2f}-{max(times):.2f})" if len(times) > 1 else ""
    return [
        *head,
        f"{middle:.2f}{spread}",
        f"{last.events / middle:,.0f}",
        f"{ended[-1].results:,}",
        (ended[-1].digest or "")[:_DIGEST_CHARACTERS],
        f"{max(run.peak_memory or 0 for run in ended) / 1e6:,.0f}",
        (last.checked or "") if all(run.is_right for run in group) else "[red]wrong[/]",
    ]
