"""Runtimes over commits: a panel per query as a Vega-Lite specification, and the changes."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import altair as alt

from beam_nexmark.changes import Change, changes
from beam_nexmark.record import OURS, QueryRun
from beam_nexmark.series import Conditions, Point, Series, builds, series

_HEIGHT = 150
_INK, _GOOD, _BAD = "#1f2328", "#1a7f37", "#cf222e"
_COLOURS = ["#0860ca", "#b34700", _GOOD, "#8250df", "#9a6700", _BAD]
_FAR_APART = 5.0
"""Ratio of the slowest to the fastest runtime from which the axis is logarithmic."""


@dataclass(frozen=True)
class Past:
    """The runs of one workload over time."""

    runs: Sequence[QueryRun]

    @cached_property
    def builds(self) -> list[str]:
        """All builds in order."""
        return builds(self.runs)

    @property
    def changes(self) -> list[tuple[str, bool]]:
        """The changes, newest first, and whether each is a regression."""
        found = [change for one in self._series for change in self._changes[one.conditions]]
        found.sort(key=lambda change: self.builds.index(change.point.build), reverse=True)
        return [(self._change_text(change), change.verdict.is_regression) for change in found]

    @property
    def panels(self) -> dict[str, dict[str, Any]]:
        """A specification for each query that ran."""
        queries: dict[str, list[Series]] = {}
        for one in self._series:
            queries.setdefault(one.first.label, []).append(one)
        return {
            name: self._panel(group)
            for name, group in queries.items()
            if any(point.times for one in group for point in one.points)
        }

    @cached_property
    def _series(self) -> list[Series]:
        return series(self.runs)

    @cached_property
    def _changes(self) -> dict[Conditions, list[Change]]:
        return {one.conditions: changes(one) for one in self._series}

    def _change_text(self, change: Change) -> str:
        """Format the change with its conditions."""
        return f"{change} ({self._contestant(change.series.conditions)})"

    def _contestant(self, conditions: Conditions) -> str:
        """Format the runner, with cores and machine if these differ between runs."""
        parts = ["sparkbeam" if conditions.runner == OURS else conditions.runner]
        if len({one.conditions.cores for one in self._series}) > 1:
            parts.append(f"{conditions.cores} tasks")
        if len({one.conditions.machine for one in self._series}) > 1:
            parts.append(conditions.machine or "unknown machine")
        return ", ".join(parts)

    @cached_property
    def _contestants(self) -> list[str]:
        """All contestants, sparkbeam's first."""
        found = sorted(self._series, key=lambda one: one.conditions.runner != OURS)
        return list(dict.fromkeys(self._contestant(one.conditions) for one in found))

    def _panel(self, group: Sequence[Series]) -> dict[str, Any]:
        rows = [self._row(one, point) for one in group for point in one.points]
        times = [row["median"] for row in rows if row["median"]]
        is_log = max(times) / min(times) > _FAR_APART
        scale = alt.Scale(type="log") if is_log else alt.Scale(type="linear")
        base = alt.Chart(alt.InlineData(values=rows)).encode(
            x=alt.X("build:N")
            .title(None)
            .scale(domain=self.builds)
            .axis(labelAngle=-45, labelOverlap=True, labelLimit=110, grid=False),
            color=alt.Color("contestant:N")
            .title(None)
            .scale(domain=self._contestants, range=_COLOURS)
            .legend(orient="top", columns=1, labelLimit=300),
            tooltip=_TOOLTIP,
        )
        y = alt.Y("median:Q").title("seconds").scale(scale).axis(tickCount=4)
        layers = [
            base.mark_area(opacity=0.25).encode(y=alt.Y("low:Q").title("seconds"), y2="high:Q"),
            base.mark_line(point={"size": 30, "filled": True}, strokeWidth=1.5).encode(y=y),
            *_marks(base, y),
        ]
        return _specification(alt.layer(*layers).properties(height=_HEIGHT))

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


def _specification(chart: alt.TopLevelMixin) -> dict[str, Any]:
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
