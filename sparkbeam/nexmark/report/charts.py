"""Charts of the report as Vega-Lite specifications.

All are as wide as their container, so that they fit a screen and a phone.
"""

from collections.abc import Iterable, Sequence
from math import log1p
from typing import Any

import altair as alt

from sparkbeam.nexmark.record import OURS, QueryRun

_ROW = 13
_SIZES_HEIGHT = 300
_LABEL_HEIGHT = 12
_POWERS = [0, *(10**power for power in range(9))]
_UNITS = {"seconds": "seconds", "throughput": "events/s"}
_INK = "#1f2328"
COLOURS = ["#0860ca", "#b34700", "#1a7f37", "#8250df", "#9a6700", "#cf222e"]


def runtime(runs: Sequence[QueryRun]) -> dict[str, Any]:
    """Return box plots of the seconds of each query, one box per contestant."""
    return _boxes(_rows(runs), "seconds", "~g")


def throughput(runs: Sequence[QueryRun]) -> dict[str, Any]:
    """Return box plots of the events per second of each query, one box per contestant."""
    return _boxes(_rows(runs), "throughput", "~s")


def result_sizes(runs: Sequence[QueryRun]) -> dict[str, Any]:
    """Return result counts over time: a flat line per query, with a gap where a run failed."""
    rows = _sizes(runs)
    queries = list(dict.fromkeys(row["query"] for row in rows))
    lines = (
        alt.Chart(_data(rows))
        .mark_line(point={"size": 40, "filled": True}, strokeWidth=1.5, opacity=0.8)
        .encode(
            x=alt.X("started:T")
            .title(None)
            .axis(labelOverlap=True, grid=False, tickCount=4, format="%Y-%m-%d %H:%M"),
            y=alt.Y("results:Q")
            .title("results, logarithmic")
            .scale(type="symlog")
            .axis(values=_POWERS, labelExpr="format(datum.value, '~s')"),
            color=alt.Color("query:N").sort(queries).scale(scheme="tableau20").legend(None),
            detail=["contestant:N"],
            tooltip=[
                alt.Tooltip("query:N"),
                alt.Tooltip("contestant:N"),
                alt.Tooltip("started:T", format="%Y-%m-%d %H:%M:%S"),
                alt.Tooltip("results:Q", format=","),
                alt.Tooltip("digest:N"),
            ],
        )
    )
    names = (
        alt.Chart(_data(_labels(rows)))
        .mark_text(align="right", dx=-8, dy=-8, fontSize=10)
        .encode(
            x=alt.X("started:T"),
            y=alt.Y("results:Q"),
            text="names:N",
        )
    )
    return specification((lines + names).properties(height=_SIZES_HEIGHT))


def contestant(run: QueryRun) -> str:
    """Return the runner with its version."""
    if run.runner == OURS:
        return f"sparkbeam {run.sparkbeam}"
    return f"{run.runner} of Beam {run.beam}"


def label(run: QueryRun) -> str:
    """Return the label of a query on the axes."""
    return f"q{run.query} {run.name}"


def _boxes(rows: list[dict[str, Any]], figure: str, form: str) -> dict[str, Any]:
    contestants = sorted({row["contestant"] for row in rows}, reverse=True)
    contestants.sort(key=lambda name: not name.startswith("sparkbeam "))
    queries = list(dict.fromkeys(row["query"] for row in rows))
    base = (
        alt.Chart(_data(rows))
        .encode(
            x=alt.X(f"{figure}:Q")
            .title(f"{_UNITS[figure]}, logarithmic")
            .scale(type="log", nice=True)
            .axis(labelOverlap="greedy", labelSeparation=8, format=form),
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


def _data(rows: list[dict[str, Any]]) -> alt.InlineData:
    return alt.InlineData(values=rows)


def _rows(runs: Iterable[QueryRun]) -> list[dict[str, Any]]:
    ended = [run for run in runs if run.failure is None]
    return [_row(run) for run in sorted(ended, key=lambda run: (run.query, run.started))]


def _row(run: QueryRun) -> dict[str, Any]:
    return {
        "query": label(run),
        "contestant": contestant(run),
        "seconds": run.seconds,
        "throughput": run.throughput,
        "started": run.started,
        "results": run.results,
        "digest": run.digest,
    }


def _sizes(runs: Sequence[QueryRun]) -> list[dict[str, Any]]:
    """Return the rows of runs, one without results for each invocation in which a query failed."""
    failed = {(run.query, contestant(run), run.started): run for run in runs if run.failure}
    ended = [run for run in runs if (run.query, contestant(run), run.started) not in failed]
    return [*_rows(ended), *({**_row(run), "results": None} for run in failed.values())]


def _labels(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the names of queries at the ends of their lines; one label for close ones."""
    ends = {
        int(row["query"].split(" ")[0][1:]): row["results"]
        for row in rows
        if row["results"] is not None
    }
    close = log1p(max(ends.values(), default=0)) * _LABEL_HEIGHT / _SIZES_HEIGHT
    last = max(row["started"] for row in rows)
    labels: list[tuple[int, list[int]]] = []
    for query, size in sorted(ends.items(), key=lambda end: end[1]):
        if not labels or log1p(size) - log1p(labels[-1][0]) > close:
            labels.append((size, []))
        labels[-1][1].append(query)
    return [
        {"results": size, "started": last, "names": ", ".join(f"q{one}" for one in sorted(queries))}
        for size, queries in labels
    ]
