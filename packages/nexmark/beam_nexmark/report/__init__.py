"""Report: a self-contained HTML page that works offline."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import altair
import vl_convert
from jinja2 import Environment, PackageLoader, StrictUndefined

from beam_nexmark.configuration import Configuration
from beam_nexmark.record import OURS, QueryRun, median_seconds
from beam_nexmark.report.runtimes import Past
from sparkbeam.errors import ConfigurationError

_SNIPPET = "window.vegaEmbed = vegaEmbed;"
"""Script run after loading the bundle of Vega, Vega-Lite and Vega-Embed."""


@dataclass(frozen=True)
class Workload:
    """All runs with the same configuration in the same mode, which are comparable.

    Attributes:
        runs: in order of query, contestant and time.
    """

    title: str
    runs: Sequence[QueryRun]

    @property
    def past(self) -> Past:
        """The same runs over time."""
        return Past(self.runs)

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
    def changes(self) -> list[str]:
        """Queries whose results differ between runs."""
        found = []
        for query, group in _grouped(self.runs, lambda run: run.label).items():
            sizes = list(
                dict.fromkeys((r.results or 0, r.digest or "") for r in group if not r.failure)
            )
            if len(sizes) > 1:
                counts = ", ".join(f"{count:,} ({digest[:12]})" for count, digest in sizes)
                found.append(f"{query}: {counts}")
        return found


@dataclass(frozen=True)
class Capabilities:
    """The last run of each query on each runner in each mode."""

    runs: Sequence[QueryRun]

    @property
    def columns(self) -> list[str]:
        """Runners with their modes, sparkbeam's first."""
        ours_first = sorted(self.runs, key=lambda run: run.runner != OURS)
        return list(dict.fromkeys(map(_place, ours_first)))

    @property
    def rows(self) -> dict[str, dict[str, QueryRun]]:
        """The last run by query and column."""
        ordered = sorted(self.runs, key=lambda run: run.query)
        table: dict[str, dict[str, QueryRun]] = {run.label: {} for run in ordered}
        for run in sorted(self.runs, key=lambda run: run.started):
            table[run.label][_place(run)] = run
        return table


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
    page = environment.get_template("page.html").render(
        workloads=_workloads(runs),
        capabilities=Capabilities(runs),
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
    version = ".".join(altair.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
    return str(vl_convert.javascript_bundle(_SNIPPET, vl_version=version))


def _workloads(runs: Iterable[QueryRun]) -> list[Workload]:
    """Return the workloads, the most recent one first."""

    def last(workload: Workload) -> str:
        return max(run.started for run in workload.runs)

    ordered = sorted(runs, key=_rank)
    found = [Workload(title, group) for title, group in _grouped(ordered, _title).items()]
    return sorted(found, key=last, reverse=True)


def _rank(run: QueryRun) -> tuple[int, bool, str, str]:
    """Return the place of a run: by query, then sparkbeam's runner first."""
    return run.query, run.runner != OURS, run.contestant, run.started


def _title(run: QueryRun) -> str:
    usual = Configuration().as_dict()
    special = [
        f"{name} {value}"
        for name, value in run.configuration.items()
        if name != "events" and usual.get(name) != value
    ]
    return ", ".join([f"{run.events:,} events, {run.mode}", *special])


def _place(run: QueryRun) -> str:
    return f"{run.runner.split('.')[-1]}, {run.mode}"


def _grouped(runs: Iterable[QueryRun], key: Callable[[QueryRun], str]) -> dict[str, list[QueryRun]]:
    """Group runs with equal keys, in the order of their first runs."""
    found: dict[str, list[QueryRun]] = {}
    for run in runs:
        found.setdefault(key(run), []).append(run)
    return found
