"""Stage graph of a plan as plain data, as HTML with a page around it, and as a Mermaid flowchart.

The HTML fetches no script, font or image. Colours follow the light or dark colour scheme of the
reader's system.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib import resources
from string import Template
from typing import Any

from sparkbeam.common.display_text import shortened
from sparkbeam.common.untrusted_json import parsed
from sparkbeam.explain import describe
from sparkbeam.plan.grouping import GroupStrategy
from sparkbeam.plan.model import Exchange, Plan, Stage
from sparkbeam.plan.row_formats import KeyedRows

SIDE = "side"
"""Kind of a side input."""

_KINDS = frozenset([SIDE, *(exchange.value for exchange in Exchange)])

_TEXTS = {
    Exchange.IMPULSE: "impulse",
    Exchange.FORWARD: "same task",
    Exchange.REBALANCE: "rebalance",
    Exchange.BY_KEY: "shuffle by key",
    Exchange.SORT: "by key in the same task",
    Exchange.JOIN: "join",
}

Figures = Mapping[str, Sequence[str]]
"""Lines below the labels of a stage, by its id."""

_MOST_LABELS, _MOST_CHARACTERS = 14, 100
"""Of a box in a flowchart, and of a label there; Mermaid takes 50,000 characters in all."""


@dataclass(frozen=True)
class StageInput:
    """An input of a stage.

    Attributes:
        kind: the value of an :class:`.Exchange`, or ``SIDE``.
    """

    kind: str
    text: str


@dataclass(frozen=True)
class StageBox:
    """A stage.

    Attributes:
        ways: its main input, then its side inputs if it has any.
    """

    id: str
    labels: tuple[str, ...]
    ways: tuple[StageInput, ...]
    tip: str
    note: str = ""


@dataclass(frozen=True)
class Arrow:
    """An edge between two stages, given by their ids, with the kind of input."""

    producer: str
    reader: str
    kind: str


@dataclass(frozen=True)
class Sketch:
    """The graph, with stages in topological order."""

    boxes: tuple[StageBox, ...]
    arrows: tuple[Arrow, ...]

    @classmethod
    def from_content(cls, content: Any) -> "Sketch":
        """Parse untrusted content of its fields.

        Raises:
            ValueError: the content is not a graph.
        """
        found = parsed(cls, content)
        boxes, arrows = found.boxes, found.arrows
        kinds = [[way.kind for way in box.ways] for box in boxes]
        if not all(1 <= len(each) <= 2 and _KINDS.issuperset(each) for each in kinds):
            raise ValueError("A stage of the graph has no input.")
        places = {box.id: number for number, box in enumerate(boxes)}
        ways = {(box.id, way.kind) for box in boxes for way in box.ways}
        if len(places) != len(boxes) or not all(
            (arrow.reader, arrow.kind) in ways
            and places.get(arrow.producer, len(boxes)) < places[arrow.reader]
            for arrow in arrows
        ):
            raise ValueError("An arrow of the graph has no stage.")
        return found


def sketch(plan: Plan) -> Sketch:
    """Return the graph of a plan."""
    arrows = (
        Arrow(
            edge.producer.id,
            edge.reader.id,
            SIDE if edge.side_inputs else edge.reader.exchange.value,
        )
        for edge in describe.edges(plan)
    )
    boxes = []
    for stage in plan.stages:
        tip = f"{stage.id}: {', '.join(stage.labels)}"
        if stage.grouping is not None:
            tip += f"\ngroup {describe.grouping(stage.grouping)}"
        times = plan.persisted_reads(stage)
        note = f"persisted, read {times} times" if times else ""
        if not times and any(port.tag in plan.kept for port in stage.ports):
            note = "kept in files"
        detail = _detail(stage) if stage.exchange in (Exchange.BY_KEY, Exchange.SORT) else ""
        ways = [StageInput(stage.exchange.value, f"{_TEXTS[stage.exchange]}{detail}")]
        if stage.side_inputs:
            ways.append(StageInput(SIDE, "side input"))
        boxes.append(StageBox(stage.id, stage.labels, tuple(ways), tip, note))
    return Sketch(tuple(boxes), tuple(arrows))


def _detail(stage: Stage) -> str:
    if stage.grouping is not None:
        strategy = stage.grouping.strategy
        return "" if strategy is GroupStrategy.WINDOWS else f", {strategy.name.lower()}"
    if isinstance(stage.format, KeyedRows):
        return ", by time" if stage.format.by_time else ", state"
    return ""


def html(graph: Sketch, figures: Figures | None = None) -> str:
    """Return the stages as boxes in rows, each below the stages that it reads.

    A box has the user's labels, and tells from which stages its rows come and by which exchange.

    Args:
        figures: scripts find these lines by the class ``figure``, in a box with the id of the
            stage as ``data-stage``.
    """
    sources = defaultdict(list)
    for arrow in graph.arrows:
        sources[arrow.reader, arrow.kind].append(arrow.producer)
    rows: defaultdict[int, list[str]] = defaultdict(list)
    depth: dict[str, int] = {}
    for box in graph.boxes:
        ways = {way: sources[box.id, way.kind] for way in box.ways}
        above = [depth[source] for found in ways.values() for source in found]
        depth[box.id] = max(above, default=-1) + 1
        rows[depth[box.id]].append(_box(box, ways, (figures or {}).get(box.id, ())))
    shown = "".join(f'<div class="row">{"".join(rows[row])}</div>' for row in sorted(rows))
    return f'<div class="sparkbeam-plan"><style>\n{_resource("stages.css")}</style>{shown}</div>'


def page(
    graph: Sketch, title: str, sections: Mapping[str, str], figures: Figures | None = None
) -> str:
    """Return an HTML document with the stages and texts under headings.

    Args:
        figures: see :func:`html`.
    """
    texts = (f"<h2>{_text(head)}</h2>\n<pre>{_text(text)}</pre>" for head, text in sections.items())
    return Template(_resource("page.html")).substitute(
        title=_text(title), graph=html(graph, figures), sections="\n".join(texts)
    )


@cache
def _resource(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def flowchart(graph: Sketch, figures: Figures | None = None) -> str:
    """Return a flowchart for Mermaid (https://mermaid.js.org), which code hosts draw.

    A dotted line is a side input.

    Args:
        figures: see :data:`Figures`.
    """
    found = ["flowchart TD"]
    names = {box.id: f"stage{number}" for number, box in enumerate(graph.boxes)}
    texts = {(box.id, way.kind): way.text for box in graph.boxes for way in box.ways}
    for box in graph.boxes:
        hidden = len(box.labels) - _MOST_LABELS
        more = [f"{hidden} more"] if hidden > 0 else []
        lines = (box.id, *box.labels[:_MOST_LABELS], *more, *(figures or {}).get(box.id, ()))
        found.append(f'  {names[box.id]}["{"<br>".join(map(_mermaid, lines))}"]')
    for arrow in graph.arrows:
        line = "-.->" if arrow.kind == SIDE else "-->"
        text = _mermaid(texts[arrow.reader, arrow.kind])
        found.append(f'  {names[arrow.producer]} {line}|"{text}"| {names[arrow.reader]}')
    return "".join(f"{line}\n" for line in found)


def _mermaid(text: str) -> str:
    """Return a text with the codes of characters that may mean something to Mermaid."""
    safe = " ,.:/_-+=()"
    plain = shortened(text, _MOST_CHARACTERS)
    return "".join(c if c.isalnum() or c in safe else f"#{ord(c)};" for c in plain)


def _box(box: StageBox, ways: Mapping[StageInput, Sequence[str]], figures: Sequence[str]) -> str:
    note = f'<span class="soft note">{_text(box.note)}</span>' if box.note else ""
    inputs = ""
    for way, sources in ways.items():
        text = f"{way.text} from {', '.join(sources)}" if sources else way.text
        inputs += f'<p class="way {way.kind}">{_text(text)}</p>'
    labels = "".join(f"<li>{_text(label)}</li>" for label in box.labels)
    lines = "".join(f'<p class="soft figure">{_text(line)}</p>' for line in figures)
    return (
        f'<div class="box" data-stage="{_text(box.id)}" title="{_text(box.tip)}">'
        f"<p>{note}<b>{_text(box.id)}</b></p>{inputs}<ul>{labels}</ul>{lines}</div>"
    )


def _text(text: str) -> str:
    """Return lines of text as HTML, without the characters that a page cannot have."""
    return escape(_ILLEGAL.sub("\N{REPLACEMENT CHARACTER}", text))


_ILLEGAL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
"""Controls other than line ends and tabs, lone surrogates, and what is no character at all."""
