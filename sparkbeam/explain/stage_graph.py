"""Stage graph of a plan as plain data, as HTML with a page around it, and as a Mermaid flowchart.

The HTML fetches no script, font or image. Colours follow the light or dark colour scheme of the
reader's system.
"""

import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
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

_STYLE = f"""
.sparkbeam-plan {{ color-scheme: light dark; padding: 16px; overflow-x: auto;
  font: 13px/1.4 system-ui, -apple-system, "Segoe UI", Roboto, Helvetica, Arial, sans-serif;
  color: light-dark(#1f2328, #e6edf3); background: light-dark(#fff, #0d1117); }}
.sparkbeam-plan .row {{ display: flex; flex-wrap: wrap; justify-content: center; gap: 12px;
  margin-bottom: 20px; }}
.sparkbeam-plan .box {{ width: 264px; padding: 6px 12px; overflow-wrap: anywhere;
  border: 1px solid light-dark(#9aa4b1, #59636e); border-radius: 6px;
  background: light-dark(#f6f8fa, #161b22); }}
.sparkbeam-plan p {{ margin: 0; }}
.sparkbeam-plan ul {{ margin: 4px 0; padding: 0; list-style: none; max-height: 260px;
  overflow-y: auto; }}
.sparkbeam-plan .note {{ float: right; }}
.sparkbeam-plan .soft {{ font-size: 12px; color: light-dark(#59636e, #9aa4b1); }}
.sparkbeam-plan .way {{ font-size: 12px; font-weight: 600; }}
.sparkbeam-plan .{Exchange.REBALANCE.value} {{ color: light-dark(#0860ca, #6cb0ff); }}
.sparkbeam-plan .{Exchange.BY_KEY.value} {{ color: light-dark(#b34700, #ffa265); }}
.sparkbeam-plan .{Exchange.JOIN.value} {{ color: light-dark(#1a7f37, #57c46f); }}
.sparkbeam-plan .{SIDE} {{ color: light-dark(#7b3fc4, #c9a0ff); }}
"""

_PAGE = Template("""\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>$title</title>
<style>
body { margin: 0 auto; max-width: 1280px; padding: 0 16px 48px; line-height: 1.5;
  font-family: system-ui, -apple-system, "Segoe UI", Roboto, Helvetica, Arial, sans-serif; }
h1 { font-size: 24px; overflow-wrap: anywhere; }
h2 { font-size: 18px; margin-top: 32px; }
pre { overflow-x: auto; padding: 12px; font-size: 13px; line-height: 1.45;
  border: 1px solid light-dark(#9aa4b1, #59636e); border-radius: 6px; }
</style>
</head>
<body>
<h1>$title</h1>
<h2>How the stages connect</h2>
$graph
$sections
</body>
</html>
""")


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
        note = _note(plan, stage)
        boxes.append(StageBox(stage.id, stage.labels, tuple(_ways(stage)), tip, note))
    return Sketch(tuple(boxes), tuple(arrows))


def _note(plan: Plan, stage: Stage) -> str:
    times = plan.persisted_reads(stage)
    if times:
        return f"persisted, read {times} times"
    return "kept in files" if any(port.tag in plan.kept for port in stage.ports) else ""


def _ways(stage: Stage) -> Iterator[StageInput]:
    detail = _detail(stage) if stage.exchange in (Exchange.BY_KEY, Exchange.SORT) else ""
    yield StageInput(stage.exchange.value, f"{_TEXTS[stage.exchange]}{detail}")
    if stage.side_inputs:
        yield StageInput(SIDE, "side input")


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
    return f'<div class="sparkbeam-plan"><style>{_STYLE}</style>{shown}</div>'


def page(
    graph: Sketch, title: str, sections: Mapping[str, str], figures: Figures | None = None
) -> str:
    """Return an HTML document with the stages and texts under headings.

    Args:
        figures: see :func:`html`.
    """
    texts = (f"<h2>{_text(head)}</h2>\n<pre>{_text(text)}</pre>" for head, text in sections.items())
    return _PAGE.substitute(
        title=_text(title), graph=html(graph, figures), sections="\n".join(texts)
    )


def flowchart(graph: Sketch, figures: Figures | None = None) -> str:
    """Return a flowchart for Mermaid (https://mermaid.js.org), which code hosts draw.

    A dotted line is a side input.

    Args:
        figures: see :data:`Figures`.
    """
    return "".join(f"{line}\n" for line in _flowchart(graph, figures or {}))


def _flowchart(graph: Sketch, figures: Figures) -> Iterator[str]:
    yield "flowchart TD"
    names = {box.id: f"stage{number}" for number, box in enumerate(graph.boxes)}
    texts = {(box.id, way.kind): way.text for box in graph.boxes for way in box.ways}
    for box in graph.boxes:
        hidden = len(box.labels) - _MOST_LABELS
        more = [f"{hidden} more"] if hidden > 0 else []
        lines = (box.id, *box.labels[:_MOST_LABELS], *more, *figures.get(box.id, ()))
        yield f'  {names[box.id]}["{"<br>".join(map(_mermaid, lines))}"]'
    for arrow in graph.arrows:
        line = "-.->" if arrow.kind == SIDE else "-->"
        text = _mermaid(texts[arrow.reader, arrow.kind])
        yield f'  {names[arrow.producer]} {line}|"{text}"| {names[arrow.reader]}'


def _mermaid(text: str) -> str:
    """Return a text with the codes of characters that may mean something to Mermaid."""
    safe = " ,.:/_-+=()"
    plain = shortened(text, _MOST_CHARACTERS)
    return "".join(c if c.isalnum() or c in safe else f"#{ord(c)};" for c in plain)


def _box(box: StageBox, ways: Mapping[StageInput, Sequence[str]], figures: Sequence[str]) -> str:
    note = f'<span class="soft note">{_text(box.note)}</span>' if box.note else ""
    inputs = "".join(
        f'<p class="way {way.kind}">{_text(_with_sources(way.text, sources))}</p>'
        for way, sources in ways.items()
    )
    labels = "".join(f"<li>{_text(label)}</li>" for label in box.labels)
    lines = "".join(f'<p class="soft figure">{_text(line)}</p>' for line in figures)
    return (
        f'<div class="box" data-stage="{_text(box.id)}" title="{_text(box.tip)}">'
        f"<p>{note}<b>{_text(box.id)}</b></p>{inputs}<ul>{labels}</ul>{lines}</div>"
    )


def _with_sources(text: str, sources: Sequence[str]) -> str:
    return f"{text} from {', '.join(sources)}" if sources else text


def _text(text: str) -> str:
    """Return lines of text as HTML."""
    return escape("".join("\N{REPLACEMENT CHARACTER}" if _is_illegal(c) else c for c in text))


def _is_illegal(character: str) -> bool:
    """Return whether a page cannot have a character: a control, a lone surrogate, none at all."""
    control = unicodedata.category(character) in ("Cc", "Cs") and character not in "\n\t"
    return control or character in "\ufffe\uffff"
