"""Report: a self-contained HTML page that works offline, with a chart per query over commits."""

from collections.abc import Callable, Iterable, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import altair as alt
import vl_convert
from jinja2 import Environment, PackageLoader, StrictUndefined

from beam_nexmark.changes import Change, changes
from beam_nexmark.configuration import Configuration
from beam_nexmark.record import OURS, QueryRun, median_seconds
from beam_nexmark.series import Conditions, Point, Series, builds, series
from sparkbeam.errors import ConfigurationError

_SNIPPET = "window.vegaEmbed = vegaEmbed;"
"""Script run after loading the bundle of Vega, Vega-Lite and Vega-Embed."""

_HEIGHT = 150
_INK, _GOOD, _BAD = "#1f2328", "#1a7f37", "#cf222e"
_COLOURS = ["#0860ca", "#b34700", _GOOD, "#8250df", "#9a6700", _BAD]
_FAR_APART = 5.0
"""Ratio of the slowest to the fastest runtime from which the axis is logarithmic."""


class Workload:
    """All runs with the same configuration in the same mode, which are comparable.

    Args:
        runs: in order of query, contestant and time.
    """

    def __init__(self, title: str, runs: Sequence[QueryRun]) -> None:
        self.title = title
        self.runs = runs
        self._series = series(runs)
        self._changes = {one.conditions: changes(one) for one in self._series}

    @cached_property
    def builds(self) -> list[str]:
        """All builds in order."""
        return builds(self.runs)

    @property
    def medians(self) -> list[tuple[str, str, float, float, int]]:
        """Query, contestant, seconds, events/s and peak memory in bytes."""
        rows = []
        for group in _grouped(self.runs, lambda run: run.label + run.contestant).values():
            seconds = median_seconds(group)
            if seconds:
                first, memory = group[0], max(run.peak_memory or 0 for run in group)
                throughput = first.events / seconds
                rows.append((first.label, first.contestant, seconds, throughput, memory))
        return rows

    @property
    def varied(self) -> list[str]:
        """Queries whose results differ between runs."""
        found = []
        for query, group in _grouped(self.runs, lambda run: run.label).items():
            sizes = dict.fromkeys((r.results or 0, r.digest or "") for r in group if not r.failure)
            if len(sizes) > 1:
                counts = ", ".join(f"{count:,} ({digest[:12]})" for count, digest in sizes)
                found.append(f"{query}: {counts}")
        return found

    @property
    def changes(self) -> list[tuple[str, bool]]:
        """The changes over commits, newest first, and whether each is a regression."""
        found = [change for one in self._series for change in self._changes[one.conditions]]
        found.sort(key=lambda change: self.builds.index(change.point.build), reverse=True)
        return [
            (f"{each} ({self._contestant(each.series.conditions)})", each.verdict.is_regression)
            for each in found
        ]

    @cached_property
    def panels(self) -> dict[str, dict[str, Any]]:
        """A Vega-Lite specification for each query that ran."""
        queries: dict[str, list[Series]] = {}
        for one in self._series:
            queries.setdefault(one.first.label, []).append(one)
        return {
            name: self._panel(group)
            for name, group in queries.items()
            if any(point.times for one in group for point in one.points)
        }

    def _contestant(self, conditions: Conditions) -> str:
        """Format the runner, with cores and machine if these differ between runs."""
        parts = ["sparkbeam" if conditions.runner == OURS else conditions.runner]
        if len({one.conditions.cores for one in self._series}) > 1:
            parts.append(f"{conditions.cores} tasks")
        if len({one.conditions.machine for one in self._series}) > 1:
            parts.append(conditions.machine or "unknown machine")
        return ", ".join(parts)

    def _panel(self, group: Sequence[Series]) -> dict[str, Any]:
        rows = [self._row(one, point) for one in group for point in one.points]
        times = [row["median"] for row in rows if row["median"]]
        scale = alt.Scale(type="log" if max(times) / min(times) > _FAR_APART else "linear")
        ours_first = sorted(self._series, key=lambda one: one.conditions.runner != OURS)
        contestants = dict.fromkeys(self._contestant(one.conditions) for one in ours_first)
        base = alt.Chart(alt.InlineData(values=rows)).encode(
            x=alt.X("build:N")
            .title(None)
            .scale(domain=self.builds)
            .axis(labelAngle=-45, labelOverlap=True, labelLimit=110, grid=False),
            color=alt.Color("contestant:N")
            .title(None)
            .scale(domain=[*contestants], range=_COLOURS)
            .legend(orient="top", columns=1, labelLimit=300),
            tooltip=_TOOLTIP,
        )
        y = alt.Y("median:Q").title("seconds").scale(scale).axis(tickCount=4)
        layers = [
            base.mark_area(opacity=0.25).encode(y=alt.Y("low:Q").title("seconds"), y2="high:Q"),
            base.mark_line(point={"size": 30, "filled": True}, strokeWidth=1.5).encode(y=y),
            *_marks(base, y),
        ]
        specification: dict[str, Any] = alt.layer(*layers).properties(height=_HEIGHT).to_dict()
        return {**specification, **_STYLE}

    def _row(self, one: Series, point: Point) -> dict[str, Any]:
        found = [change for change in self._changes[one.conditions] if change.point is point]
        bad = any(change.verdict.is_regression for change in found)
        return {
            "build": point.build,
            "contestant": self._contestant(one.conditions),
            "median": point.median,
            "low": min(point.times, default=None),
            "high": max(point.times, default=None),
            "runs": len(point.runs),
            "problem": point.failure or point.wrong,
            "change": "; ".join(str(change) for change in found),
            "label": " ".join(_short(change) for change in found if point.times),
            "kind": ("worse" if bad else "better") if found else "",
        }


_TOOLTIP = [
    alt.Tooltip("build:N"),
    alt.Tooltip("contestant:N"),
    alt.Tooltip("median:Q", format=".3g", title="median, s"),
    alt.Tooltip("low:Q", format=".3g", title="fastest, s"),
    alt.Tooltip("high:Q", format=".3g", title="slowest, s"),
    alt.Tooltip("runs:Q"),
    alt.Tooltip("change:N"),
    alt.Tooltip("problem:N"),
]

_STYLE = {
    "width": "container",
    "autosize": {"type": "fit-x", "contains": "padding"},
    "config": {
        "font": "system-ui, sans-serif",
        "view": {"stroke": None},
        "axis": {"labelColor": _INK, "titleFontWeight": "normal", "gridColor": "#e4e8ec"},
    },
}
"""Style of the charts, which are as wide as their containers."""


def _short(change: Change) -> str:
    """Format a change without the query and the commit, which the panel shows anyway."""
    return str(change).partition(" ")[2].partition(f" at {change.point.build}")[0]


def _marks(base: alt.Chart, y: alt.Y) -> list[alt.Chart]:
    """Return rings and labels at changes, and crosses at failed runs."""
    tint = alt.condition("datum.kind == 'worse'", alt.value(_BAD), alt.value(_GOOD))
    changed = base.transform_filter("datum.label != ''")
    failed = base.transform_filter("datum.problem != null && datum.median == null")
    return [
        changed.mark_point(size=120, strokeWidth=2).encode(y=y, color=tint),
        changed.mark_text(dy=-14, fontSize=11, fontWeight="bold").encode(
            y=y, text="label:N", color=tint
        ),
        failed.mark_point(shape="cross", size=70, angle=45, strokeWidth=2).encode(
            y=alt.value(_HEIGHT - 8), color=alt.value(_BAD)
        ),
    ]


def render(runs: Sequence[QueryRun], path: Path) -> None:
    """Write the page about all ``runs``.

    Raises:
        ConfigurationError: there are no runs, or the file cannot be written.
    """
    if not runs:
        raise ConfigurationError("There are no runs to report yet: start 'sparkbeam nexmark'.")
    environment = Environment(
        loader=PackageLoader("beam_nexmark.report", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    places, table = _last_runs(runs)
    page = environment.get_template("page.html").render(
        workloads=_workloads(runs),
        places=places,
        table=table,
        last=max(runs, key=lambda run: run.started),
        count=len(runs),
        library=_library(),
    )
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"Cannot write '{path}': {error.strerror}.") from error


@cache
def _library() -> str:
    """Return Vega, in the version of Vega-Lite that altair uses; bundling it takes seconds."""
    version = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
    return str(vl_convert.javascript_bundle(_SNIPPET, vl_version=version))


def _last_runs(runs: Iterable[QueryRun]) -> tuple[list[str], dict[str, dict[str, QueryRun]]]:
    """Return the runners with their modes, sparkbeam's first, and by query its last run on each."""

    def place(run: QueryRun) -> str:
        return f"{run.runner.split('.')[-1]}, {run.mode}"

    ours_first = sorted(runs, key=lambda run: run.runner != OURS)
    found: dict[str, dict[str, QueryRun]] = {}
    for run in sorted(ours_first, key=lambda run: (run.query, run.started)):
        found.setdefault(run.label, {})[place(run)] = run
    return list(dict.fromkeys(map(place, ours_first))), found


def _workloads(runs: Iterable[QueryRun]) -> list[Workload]:
    """Return the workloads, the most recent one first."""
    ordered = sorted(
        runs, key=lambda run: (run.query, run.runner != OURS, run.contestant, run.started)
    )
    found = [Workload(title, group) for title, group in _grouped(ordered, _title).items()]
    return sorted(found, key=lambda one: max(run.started for run in one.runs), reverse=True)


def _title(run: QueryRun) -> str:
    usual = Configuration().as_dict()
    special = [
        f"{name} {value}"
        for name, value in run.configuration.items()
        if name != "events" and usual.get(name) != value
    ]
    return ", ".join([f"{run.events:,} events, {run.mode}", *special])


def _grouped(runs: Iterable[QueryRun], key: Callable[[QueryRun], str]) -> dict[str, list[QueryRun]]:
    """Group runs with equal keys, in the order of their first runs."""
    found: dict[str, list[QueryRun]] = {}
    for run in runs:
        found.setdefault(key(run), []).append(run)
    return found
