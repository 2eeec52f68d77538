"""Contestants that take turns, and their times as box plots."""

import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, TypeVar

import altair as alt
import vl_convert

INK = "#1f2328"
UNITS = {"s": 1.0, "µs": 1e6}

_Found = TypeVar("_Found")


class Times(NamedTuple):
    """Seconds that a contestant takes for a task, in each round."""

    task: str
    program: str
    seconds: list[float]

    @property
    def median(self) -> float:
        """The median of the rounds, in seconds."""
        return statistics.median(self.seconds)


def in_turns(
    task: str, contestants: Mapping[str, Callable[[], _Found]], rounds: int
) -> tuple[dict[str, _Found], dict[str, Times]]:
    """What each contestant finds, and how long it takes for it.

    Args:
        task: in words.
        contestants: by their names; they take turns.
        rounds: how often each runs, after once that does not count.
    """
    found: dict[str, _Found] = {}
    times = {name: Times(task, name, []) for name in contestants}
    for number in range(rounds + 1):
        for name, run in contestants.items():
            start = time.perf_counter()
            found[name] = run()
            taken = time.perf_counter() - start
            print(f"{task}, {name}: {taken:.2f} s {found[name]}", file=sys.stderr, flush=True)
            if number:
                times[name].seconds.append(taken)
    return found, times


def draw(every: list[Times], picture: Path, unit: str = "s") -> None:
    """Draws a box plot of each contestant's times, task by task, each task on its own scale.

    Args:
        every: in the order in which they are drawn.
        picture: an SVG file.
        unit: of the axis, one of :data:`UNITS`.
    """
    rows = [
        {"task": one.task, "program": one.program, "time": seconds * UNITS[unit]}
        for one in every
        for seconds in one.seconds
    ]
    programs = list(dict.fromkeys(one.program for one in every))
    tasks = list(dict.fromkeys(one.task for one in every))
    chart = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_boxplot(extent="min-max", size=12, median={"stroke": INK, "strokeWidth": 2})
        .encode(
            x=alt.X("time:Q").title(unit).scale(zero=True),
            y=alt.Y("program:N").sort(programs).title(None).axis(ticks=False, domain=False),
            color=alt.Color("program:N").sort(programs).legend(None),
        )
        .properties(width=480, height=alt.Step(20))
        .facet(
            row=alt.Row("task:N")
            .sort(tasks)
            .title(None)
            .header(labelAngle=0, labelAnchor="start", labelOrient="top", labelFontSize=12)
        )
        .resolve_scale(x="independent")
        .properties(background="white")
        .configure(font="sans-serif")
        .configure_view(stroke=None)
        .configure_axis(labelColor=INK, titleFontWeight="normal", gridColor="#e4e8ec")
    )
    picture.write_text(vl_convert.vegalite_to_svg(chart.to_dict()), encoding="utf-8")
