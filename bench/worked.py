"""The worked example of docs/sessions.md: what each of five elements does to the sessions of a key.

Run with ``python bench/worked.py`` to draw docs/sessions.svg.
"""

from pathlib import Path
from typing import NamedTuple

import altair as alt
import apache_beam as beam

from sparkbeam.aggregate.ordered_sessions import OrderedSessions

PICTURE = Path(__file__).parents[1] / "docs" / "sessions.svg"


class Element(NamedTuple):
    """A number in a window of its own."""

    start: int
    end: int
    value: int


BEFORE = [Element(1, 4, 4), Element(14, 15, 2)]
"""The sessions that there are at first."""

INPUTS = [
    Element(6, 9, 7),
    Element(3, 6, 5),
    Element(9, 12, 4),
    Element(5, 8, 4),
    Element(8, 11, 9),
]
"""What is reduced into them, in this order."""


def steps() -> list[dict[str, object]]:
    """A bar for each element, and one for each session after it."""
    aggregator = OrderedSessions(beam.CombineFn.from_callable(sum), max)
    buffer = aggregator.zero()
    for start, end, value in BEFORE:
        buffer = aggregator.reduce(buffer, start, end, start, value)
    bars = []
    for number, element in enumerate((None, *INPUTS)):
        step = f"{number}. reduce {element.value}" if element else "0. before"
        if element is not None:
            start, end, value = element
            bars.append({"step": step, "what": "element", "start": start, "end": end, "sum": value})
            buffer = aggregator.reduce(buffer, start, end, start, value)
        bars += [
            {"step": step, "what": "session", "start": start, "end": end, "sum": sum(accumulator)}
            for start, end, _, accumulator in aggregator.finish(buffer)
        ]
    return bars


def picture() -> alt.FacetChart:
    """The bars over time, a row for each step."""
    x = alt.X("start:Q", title="time", axis=alt.Axis(tickCount=16), scale=alt.Scale(domain=[0, 16]))
    base = alt.Chart().encode(y=alt.Y("what:N", title=None, sort=["element", "session"]))
    bars = base.mark_bar(stroke="white", strokeWidth=2, cornerRadius=3).encode(
        x=x,
        x2="end:Q",
        color=alt.Color("what:N", legend=None, scale=alt.Scale(range=["#fc8d62", "#66c2a5"])),
    )
    sums = base.transform_calculate(middle="(datum.start + datum.end) / 2")
    labels = sums.mark_text().encode(x=alt.X("middle:Q", title="time"), text="sum:Q")
    chart = alt.layer(bars, labels, data=alt.Data(values=steps())).properties(width=480, height=40)
    return chart.facet(
        row=alt.Row(
            "step:N", title=None, sort=None, header=alt.Header(labelAngle=0, labelAlign="left")
        )
    )


if __name__ == "__main__":
    picture().save(str(PICTURE))
