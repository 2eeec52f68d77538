"""Writes the tables of docs/benchmarks.md and docs/support.md, and the figures of README.md.

Run with ``python bench/tables.py`` after a change of bench/results or sparkbeam/plan/support.py; a
test compares the pages with them. A table of results stands in a page below a comment with its file
and name.
"""

import json
import re
from pathlib import Path
from typing import NamedTuple

from sparkbeam.plan import support

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "bench" / "results"
PAGE, README = ROOT / "docs" / "benchmarks.md", ROOT / "README.md"
SUPPORT, _RUNS = ROOT / "docs" / "support.md", "\n## Runs\n"

_PLACE = re.compile(r"^(<!-- results: (\w+), (.+) -->\n)(?:`.*\n\n(?:\|.*\n)+)?", re.MULTILINE)
_FIGURES = re.compile(r"(<!-- figures -->\n).*(<!-- end of figures -->\n)", re.DOTALL)


class Results(NamedTuple):
    """One run of a benchmark.

    Attributes:
        command: repeats it.
        date: of the run.
        machine: its cores and memory.
        versions: of Python, Java, Spark and Beam.
        columns: headings.
        rows: cells as text; an empty first cell stands for that of the row above.
    """

    command: str
    date: str
    machine: str
    versions: dict[str, str]
    columns: list[str]
    rows: list[list[str]]

    def markdown(self) -> str:
        """Return the command, the date and the table."""
        rule = "|" + "---|" * len(self.columns)
        lines = [_line(self.columns), rule, *map(_line, self.rows)]
        return f"`{self.command}`, {self.date}\n\n" + "".join(f"{line}\n" for line in lines)

    def programs(self) -> list[str]:
        """Return the programs of the command."""
        return re.findall(r"bench/\w+\.py", self.command)

    def cell(self, column: str, *rows: str) -> str:
        """Return a cell.

        Args:
            column: its heading.
            rows: how the first cells of its row begin.

        Raises:
            KeyError: there is no such row.
        """
        first = ""
        for cells in self.rows:
            first = cells[0] or first
            if all(map(str.startswith, (first, *cells[1:]), rows)):
                return cells[self.columns.index(column)]
        raise KeyError(rows)


def _line(cells: list[str]) -> str:
    return "|" + "".join(f" {cell} |" if cell else " |" for cell in cells)


def results(file: str, name: str) -> Results:
    """Read one table of a file of results."""
    return Results(**json.loads((RESULTS / f"{file}.json").read_text())[name])


def with_tables(page: str) -> str:
    """Return the page with each table as the results have it."""
    return _PLACE.sub(lambda place: place[1] + results(place[2], place[3]).markdown(), page)


def figures() -> str:
    """Return the paragraph on speed of the README."""
    batch = results("batch", "batch")
    lines = ["| | sparkbeam | FnApiRunner | hand-written RDD program |", "|---|---|---|---|"]
    for name, task in (
        ("sum per key, 1,000 keys", "Map, CombinePerKey(sum), 1,000 keys"),
        ("group by 100,000 keys", "Map, GroupByKey, 100,000 keys, sum of lengths"),
    ):
        times = (batch.cell("seconds", task, each) for each in ("sparkbeam", "FnApiRunner", "RDD"))
        lines.append(f"| {name} | " + " | ".join(f"{float(time):.1f} s" for time in times) + " |")
    large = results("columns", "ten million events")
    sessions, in_spark = (
        float(large.cell(column, "sessions, ")) for column in ("columns, s", "Spark's JVM, s")
    )
    stream = results("streaming", "micro-batches of 200,000 rows")
    ours, with_state, in_pandas = (
        float(stream.cell("s a micro-batch", "running count per key", program))
        for program in ("sparkbeam", "`transformWithState`", "`applyInPandasWithState`")
    )
    others = results("streaming", "large and small micro-batches")
    small = float(others.cell("s a micro-batch", "10 elements"))
    lines += [
        "",
        "To count the sessions of each bidder of ten million Nexmark events in Parquet, with plain",
        f"lambdas, takes {sessions:.1f} s, and Spark's own `session_window` {in_spark:.1f} s.",
        "",
        "In streaming, a stateful DoFn counts micro-batches of 200,000 elements with 50,000 keys",
        f"in {ours:.1f} s, where a program over `transformWithState` takes {with_state:.1f} s",
        f"and one over `applyInPandasWithState` {in_pandas:.1f} s.",
        f"A micro-batch with little to do takes {small:.1f} s.",
    ]
    return "\n".join(lines) + "\n"


def with_figures(readme: str) -> str:
    """Return README with the figures."""
    return _FIGURES.sub(lambda found: found[1] + figures() + found[2], readme)


def with_support(page: str) -> str:
    """Return the page of what works, with the tables of the code and of runs."""
    _, head, runs = page.partition(_RUNS)
    return f"{support.table()}\n{head}{with_tables(runs)}"


PAGES = {PAGE: with_tables, README: with_figures, SUPPORT: with_support}
"""The pages, each with what makes it anew."""


def main() -> None:
    """Write the pages anew."""
    for page, renewed in PAGES.items():
        page.write_text(renewed(page.read_text()))


if __name__ == "__main__":
    main()
