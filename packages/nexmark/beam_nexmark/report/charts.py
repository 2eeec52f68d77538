"""Charts of the report as Vega-Lite specifications.

All are as wide as their container, so that they fit a screen and a phone.
"""

from collections.abc import Iterable
from typing import Any

import altair as alt

from beam_nexmark.record import OURS, QueryRun

_ROW = 13
_INK = "#1f2328"
COLOURS = ["#0860ca", "#b34700", "#1a7f37", "#8250df", "#9a6700", "#cf222e"]


def contestant(run: QueryRun) -> str:
    """Return the runner with its version."""
    if run.runner == OURS:
        return f"sparkbeam {run.sparkbeam}"
    return f"{run.runner} of Beam {run.beam}"


def label(run: QueryRun) -> str:
    """Return the label of a query on the axes."""
    return f"q{run.query} {run.name}"


def runtime(runs: Iterable[QueryRun]) -> dict[str, Any]:
    """Return box plots of the seconds of each query, one box per contestant."""
    ended = [run for run in runs if run.failure is None]
    rows = [_row(run) for run in sorted(ended, key=lambda run: (run.query, run.started))]
    contestants = sorted({row["contestant"] for row in rows}, reverse=True)
    contestants.sort(key=lambda name: not name.startswith("sparkbeam "))
    queries = list(dict.fromkeys(row["query"] for row in rows))
    base = (
        alt.Chart(alt.InlineData(values=rows))
        .encode(
            x=alt.X("seconds:Q")
            .title("seconds, logarithmic")
            .scale(type="log", nice=True)
            .axis(labelOverlap="greedy", labelSeparation=8, format="~g"),
            y=alt.Y("query:N")
            .title(None)
            .sort(queries)
            .axis(labelLimit=165, domain=False, ticks=False, grid=True, bandPosition=0),
            yOffset=alt.YOffset("contestant:N").sort(contestants),
            color=alt.Color("contestant:N")
            .title(None)
            .scale(domain=contestants, range=COLOURS)
            .legend(orient="top", columns=1, labelLimit=300),
        )
        .properties(height=alt.Step(_ROW, **{"for": "offset"}))
    )
    boxes = base.mark_boxplot(
        extent="min-max",
        size=_ROW - 4,
        median={"color": _INK, "thickness": 2},
        ticks=True,
    )
    # The box of a single run is hardly to be seen.
    runs = base.mark_circle(size=45, opacity=1)
    return specification(runs + boxes)


def specification(chart: alt.TopLevelMixin) -> dict[str, Any]:
    """Return the specification of a chart in the page's style, as wide as its container."""
    specification: dict[str, Any] = chart.to_dict()
    return {
        **specification,
        "width": "container",
        "autosize": {"type": "fit-x", "contains": "padding"},
        "config": {
            "font": "system-ui, sans-serif",
            "view": {"stroke": None},
            "axis": {"labelColor": _INK, "titleFontWeight": "normal", "gridColor": "#e4e8ec"},
        },
    }


def _row(run: QueryRun) -> dict[str, Any]:
    return {
        "query": label(run),
        "contestant": contestant(run),
        "seconds": run.seconds,
    }
