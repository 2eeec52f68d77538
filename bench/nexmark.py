"""Nexmark: sparkbeam beside Beam's FnApiRunner.

Run with ``python bench/nexmark.py``. Both runners answer the same queries about
the same events on the same machine in one run, in a warm session. sparkbeam's
figure is the median of ``--repeat`` runs, that of FnApiRunner, which takes minutes
for some queries, is a single run unless ``--other_repeat`` says more. The table has
how many times as long FnApiRunner takes. Results that differ between the two are
marked, and why a query did not run stands below.
"""

import argparse
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import altair as alt
import vl_convert
from places import add_place, place_options
from rich import box
from rich.console import Console
from rich.progress import track
from rich.table import Table

from beam_nexmark import history
from beam_nexmark.configuration import Configuration
from beam_nexmark.engine import Engine, prepared
from beam_nexmark.measure import Measurement
from beam_nexmark.queries import QUERIES
from beam_nexmark.record import OURS, QueryRun, median_seconds

OURS_COLOUR, OTHER_COLOUR, INK = "#0860ca", "#b34700", "#1f2328"


def main() -> None:
    """Runs the contest, prints the table, writes the figures and draws them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--query", default=",".join(map(str, QUERIES)), help="such as 0,3,11")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--other_repeat", type=int, default=1, help="0 leaves FnApiRunner out")
    add_place(parser)
    parser.add_argument("--json", type=Path, default=Path("nexmark-bench.json"))
    parser.add_argument("--picture", type=Path, help="an SVG file")
    parser.add_argument("--from_json", type=Path, nargs="+", help="show what earlier runs wrote")
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)

    files = arguments.from_json
    runs = [run for file in files for run in history.read(file)] if files else measured(arguments)
    show(runs)
    if arguments.picture:
        arguments.picture.write_text(drawn(runs), encoding="utf-8")


def measured(arguments: argparse.Namespace) -> list[QueryRun]:
    """The runs of all queries, sparkbeam's first."""
    with place_options(arguments.on) as options:
        return in_contest(prepared("SparkRunner", options), arguments)


def in_contest(ours: Engine, arguments: argparse.Namespace) -> list[QueryRun]:
    """The runs of all queries on our runner and the other one, in turns."""
    configuration = Configuration(events=arguments.events)
    engines = [(ours, arguments.repeat)]
    if arguments.other_repeat:
        engines.append((prepared("FnApiRunner", []), arguments.other_repeat))
    contestants = [(Measurement(engine, configuration), repeat) for engine, repeat in engines]
    for contestant, _ in contestants:
        contestant.warm_up()
    runs: list[QueryRun] = []
    numbers = [int(number) for number in arguments.query.split(",")]
    for number in track(numbers, "Queries", console=Console(stderr=True), transient=True):
        for contestant, repeats in contestants:
            runs += [contestant.run(QUERIES[number], 1 + repeat) for repeat in range(repeats)]
            history.write(runs, arguments.json)
    return runs


def paired(runs: Sequence[QueryRun]) -> list[tuple[list[QueryRun], list[QueryRun]]]:
    """For each query the runs of sparkbeam and those of the other runner."""
    pairs: dict[int, tuple[list[QueryRun], list[QueryRun]]] = {}
    for run in runs:
        pairs.setdefault(run.query, ([], []))[run.runner != OURS].append(run)
    return [pair for _, pair in sorted(pairs.items())]


def show(runs: Sequence[QueryRun]) -> None:
    """Prints the table, in Markdown, and the reasons of failures."""
    table = Table(box=box.MARKDOWN)
    for column in ("query", "sparkbeam, s", "FnApiRunner, s", "times as long", "results"):
        table.add_column(column, justify="left" if column == "query" else "right")
    for ours, others in paired(runs):
        outcomes = {(run.results, run.digest) for run in (*ours, *others) if not run.failure}
        seconds, other = median_seconds(ours), median_seconds(others)
        ended = next((run.results for run in (*ours, *others) if not run.failure), None)
        table.add_row(
            ours[0].label,
            "failed" if seconds is None else f"{seconds:.2f}",
            ("failed" if others else "") if other is None else f"{other:.2f}",
            f"{other / seconds:.1f}" if seconds and other else "",
            ("" if ended is None else f"{ended:,}") + (" (differ)" if len(outcomes) > 1 else ""),
        )
    console = Console(width=120, highlight=False)
    console.print(table)
    for run in runs:
        if run.failure:
            console.print(f"{run.label} on {run.runner}: {run.failure}", soft_wrap=True)


def drawn(runs: Sequence[QueryRun]) -> str:
    """The medians of both as an SVG picture, a line between them for each query."""
    rows: list[dict[str, Any]] = [
        {"query": group[0].label, "runner": group[0].runner.split(".")[0], "seconds": seconds}
        for pair in paired(runs)
        for group in pair
        if (seconds := median_seconds(group)) is not None
    ]
    queries = list(dict.fromkeys(row["query"] for row in rows))
    across = alt.X("seconds:Q").title("seconds, logarithmic").scale(type="log")
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        y=alt.Y("query:N").sort(queries).title(None).axis(labelLimit=250, ticks=False, domain=False)
    )
    lines = base.mark_rule(color="#c4ccd4", strokeWidth=3).encode(
        x=alt.X("min(seconds):Q").title("seconds, logarithmic").scale(type="log"),
        x2="max(seconds):Q",
    )
    points = base.mark_circle(size=90, opacity=1).encode(
        x=across,
        color=alt.Color("runner:N")
        .title(None)
        .scale(domain=["sparkbeam", "FnApiRunner"], range=[OURS_COLOUR, OTHER_COLOUR])
        .legend(orient="top"),
    )
    chart = (
        (lines + points)
        .properties(width=520, height=alt.Step(22), background="white")
        .configure(font="sans-serif")
        .configure_view(stroke=None)
        .configure_axis(labelColor=INK, titleFontWeight="normal", gridColor="#e4e8ec")
    )
    return vl_convert.vegalite_to_svg(chart.to_dict())


if __name__ == "__main__":
    main()
