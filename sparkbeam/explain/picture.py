"""Picture of a plan: the graph of its stages as SVG, and an HTML page around it.

Both are self-contained: they fetch no script, font or image. Colours follow the light or dark
colour scheme of the reader's system.
"""

import html
import itertools
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from string import Template
from xml.etree import ElementTree as ET

from sparkbeam.explain import drawing
from sparkbeam.explain.sketch import SIDE, Sketch, StageBox, StageInput, sketch
from sparkbeam.observe.figures.formats import cells
from sparkbeam.plan.model import Exchange, Plan

_BOX_WIDTH = 264.0
_MARGIN = 24.0
_LINE_HEIGHT = 18.0
_LINE_CHARACTERS = 34
_MOST_LINES = 14
_HEAD_HEIGHT = 30.0
_ENTRY_HEIGHT = 36.0
_PILL_HEIGHT = 20.0
_PILL_CHARACTER = 6.1
_INDENT = 2 * "\N{NO-BREAK SPACE}"
_LEGEND = {
    Exchange.FORWARD.value: "same Spark task, no shuffle",
    Exchange.REBALANCE.value: "rebalance: spread evenly",
    Exchange.BY_KEY.value: "shuffle by key",
    Exchange.JOIN.value: "join by Spark",
    SIDE: "side input, ready before the stage starts",
}

_LIGHT = {
    "page": "#ffffff",
    "box": "#f6f8fa",
    "border": "#9aa4b1",
    "text": "#1f2328",
    "soft": "#59636e",
    Exchange.IMPULSE.value: "#59636e",
    Exchange.FORWARD.value: "#59636e",
    Exchange.REBALANCE.value: "#0860ca",
    Exchange.BY_KEY.value: "#b34700",
    Exchange.JOIN.value: "#1a7f37",
    SIDE: "#7b3fc4",
}

_DARK = {
    "page": "#0d1117",
    "box": "#161b22",
    "border": "#59636e",
    "text": "#e6edf3",
    "soft": "#9aa4b1",
    Exchange.IMPULSE.value: "#9aa4b1",
    Exchange.FORWARD.value: "#9aa4b1",
    Exchange.REBALANCE.value: "#6cb0ff",
    Exchange.BY_KEY.value: "#ffa265",
    Exchange.JOIN.value: "#57c46f",
    SIDE: "#c9a0ff",
}

_FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, Helvetica, Arial, sans-serif'

_SHAPES = f"""
.sparkbeam-plan text {{ font-family: {_FONT}; font-size: 13px; }}
.sparkbeam-plan .id {{ font-weight: 700; }}
.sparkbeam-plan .soft {{ font-size: 12px; }}
.sparkbeam-plan .edge {{ fill: none; stroke-width: 1.6px; }}
.sparkbeam-plan .edge.{SIDE}, .sparkbeam-plan .pill.{SIDE} {{ stroke-dasharray: 6 4; }}
.sparkbeam-plan .pill-text {{ font-size: 11px; font-weight: 600; text-anchor: middle; }}
"""


@dataclass(frozen=True)
class _Entry:
    """The end of edges of one kind at a stage: a pill with the exchange, and an arrow head."""

    kind: str
    text: str
    middle: float

    @property
    def width(self) -> float:
        return len(self.text) * _PILL_CHARACTER + 18


def svg(plan: Plan, figures: Mapping[str, Sequence[str]] | None = None) -> str:
    """Return the stage graph as an SVG document, from top to bottom.

    Boxes are stages with the user's labels. The text above a box is the exchange by which its rows
    arrive; a dashed line is a side input.

    Args:
        plan: the plan to draw.
        figures: lines below the labels of a stage, by its id; scripts find them by the class
            ``figure``, in a group with the id as ``data-stage``.
    """
    return drawn(sketch(plan), figures)


def drawn(graph: Sketch, figures: Mapping[str, Sequence[str]] | None = None) -> str:
    """Return the same SVG document for a sketch."""
    drawing, _ = _drawing(graph, figures or {})
    return ET.tostring(drawing, encoding="unicode")


def _drawing(graph: Sketch, figures: Mapping[str, Sequence[str]]) -> tuple[ET.Element, float]:
    """Return the SVG element, and the pixels from its left to the middle of the first stage."""
    more = {box.id: figures.get(box.id, ()) for box in graph.boxes}
    labels = {box.id: _lines(box.labels) for box in graph.boxes}
    entries = {box.id: _entries(box.ways) for box in graph.boxes}
    lines: dict[drawing.LayoutLine, str] = {}
    for arrow in graph.arrows:
        entry = next(entry for entry in entries[arrow.reader] if entry.kind == arrow.kind)
        offset = entry.middle - _BOX_WIDTH / 2
        lines[drawing.LayoutLine(arrow.producer, arrow.reader, arrow.kind, offset)] = arrow.kind
    arrangement = drawing.arrange(
        [drawing.LayoutBox(id, _BOX_WIDTH, _height(text, more[id])) for id, text in labels.items()],
        list(lines),
    )
    legend = _legend(kinds=[kind for kind in _LEGEND if kind in lines.values()])
    width = max([arrangement.width, *(end for *_, end in legend)]) + 2 * _MARGIN
    height = arrangement.height + 2 * _MARGIN + (_MARGIN if legend else 0)
    root = ET.Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "class": "sparkbeam-plan",
            "role": "img",
            "width": _number(width),
            "height": _number(height),
            "viewBox": f"0 0 {_number(width)} {_number(height)}",
        },
    )
    title = f"{len(graph.boxes)} stages and how rows travel between them"
    ET.SubElement(root, "title").text = title
    ET.SubElement(root, "style").text = _style()
    _element(root, "rect", "page", width="100%", height="100%")
    shift = _MARGIN + (width - 2 * _MARGIN - arrangement.width) / 2
    inner = ET.SubElement(root, "g", {"transform": f"translate({_number(shift)} {_MARGIN:g})"})
    _draw_edges(inner, lines, arrangement)
    for box in graph.boxes:
        x, y = arrangement.corners[box.id]
        group = ET.SubElement(inner, "g", {"transform": f"translate({_number(x)} {_number(y)})"})
        _box(group, box, labels[box.id], entries[box.id], more[box.id])
    _draw_legend(root, legend, height - _MARGIN)
    first, _ = min(arrangement.corners.values(), key=lambda corner: corner[1], default=(0.0, 0.0))
    return root, shift + first + _BOX_WIDTH / 2


def _entries(ways: Sequence[StageInput]) -> list[_Entry]:
    """Return the entries of a stage, from left to right."""
    entries = [_Entry(way.kind, way.text, _BOX_WIDTH / 2) for way in ways]
    if len(entries) == 1:
        return entries
    main, side = entries
    return [
        _Entry(main.kind, main.text, 8 + main.width / 2),
        _Entry(side.kind, side.text, _BOX_WIDTH - 8 - side.width / 2),
    ]


def _height(lines: Sequence[str], figures: Sequence[str] = ()) -> float:
    return _ENTRY_HEIGHT + _HEAD_HEIGHT + (len(lines) + len(figures)) * _LINE_HEIGHT + 8


def _box(
    group: ET.Element,
    box: StageBox,
    lines: list[str],
    entries: list[_Entry],
    figures: Sequence[str],
) -> None:
    ET.SubElement(group, "title").text = _legal(box.tip)
    for entry in entries:
        _draw_entry(group, entry)
    _element(
        group,
        "rect",
        "box",
        y=_ENTRY_HEIGHT,
        width=_BOX_WIDTH,
        height=_height(lines, figures) - _ENTRY_HEIGHT,
        rx=6,
    )
    baseline = _ENTRY_HEIGHT + 20
    _element(group, "text", "id", x=12, y=baseline).text = _legal(box.id)
    if box.note:
        note = _element(group, "text", "soft", x=_BOX_WIDTH - 12, y=baseline)
        note.set("text-anchor", "end")
        note.text = _legal(box.note)
    for number, line in enumerate(lines):
        y = _ENTRY_HEIGHT + _HEAD_HEIGHT + (number + 0.7) * _LINE_HEIGHT
        _element(group, "text", "label", x=12, y=y).text = line
    if figures:
        group.set("data-stage", _legal(box.id))
    for number, figure in enumerate(figures):
        y = _height(lines) + (number + 0.5) * _LINE_HEIGHT
        _element(group, "text", "soft figure", x=12, y=y).text = _legal(figure)


def _draw_entry(group: ET.Element, entry: _Entry) -> None:
    x = entry.middle
    _element(
        group,
        "rect",
        f"pill {entry.kind}",
        x=x - entry.width / 2,
        width=entry.width,
        height=_PILL_HEIGHT,
        rx=_PILL_HEIGHT / 2,
    )
    text = _element(group, "text", f"pill-text {entry.kind}", x=x, y=_PILL_HEIGHT - 6)
    text.text = entry.text
    tip = _ENTRY_HEIGHT - 1
    neck = tip - 8
    stem = f"M{_number(x)} {_PILL_HEIGHT:g}V{_number(neck)}"
    _element(group, "path", f"edge {entry.kind}", d=stem)
    head = f"M{_number(x - 5)} {_number(neck)}h10L{_number(x)} {_number(tip)}z"
    _element(group, "path", f"head {entry.kind}", d=head)


def _draw_edges(
    graph: ET.Element, lines: Mapping[drawing.LayoutLine, str], arrangement: drawing.Arrangement
) -> None:
    """Draw lines that are vertical in the rows and bend between them.

    Shared segments are drawn once, as they would look bolder otherwise.
    """
    drawn = set()
    for line, kind in lines.items():
        way = arrangement.ways[line]
        path, pen = [], None
        for number, (start, end) in enumerate(itertools.pairwise(way)):
            if (kind, start, end) in drawn:
                continue
            drawn.add((kind, start, end))
            if pen != start:
                path.append(f"M{_point(start)}")
            if number % 2 == 0:
                path.append(f"V{_number(end[1])}")
            else:
                middle = (start[1] + end[1]) / 2
                bend = ((start[0], middle), (end[0], middle), end)
                path.append(f"C{' '.join(map(_point, bend))}")
            pen = end
        _element(graph, "path", f"edge {kind}", d="".join(path))


def _legend(kinds: Iterable[str]) -> list[tuple[str, float, float]]:
    """Return the kinds of edges with the pixels where their explanations start and end."""
    placed, x = [], 0.0
    for kind in kinds:
        end = x + 40 + len(_LEGEND[kind]) * 6.4
        placed.append((kind, x, end))
        x = end + 20
    return placed


def _draw_legend(root: ET.Element, legend: list[tuple[str, float, float]], y: float) -> None:
    for kind, start, _ in legend:
        x = _MARGIN + start
        _element(root, "path", f"edge {kind}", d=f"M{_number(x)} {_number(y)}h32")
        _element(root, "text", "soft", x=x + 40, y=y + 4).text = _LEGEND[kind]


def _style() -> str:
    """Return the style sheet; plain colours, as some viewers do not support CSS variables."""
    dark = _colours(_DARK)
    return f"{_SHAPES}{_colours(_LIGHT)}@media (prefers-color-scheme: dark) {{\n{dark}}}\n"


def _colours(scheme: Mapping[str, str]) -> str:
    rules = {
        ".page": f"fill: {scheme['page']}",
        ".box": f"fill: {scheme['box']}; stroke: {scheme['border']}",
        "text": f"fill: {scheme['text']}",
        ".soft": f"fill: {scheme['soft']}",
        ".pill": f"fill: {scheme['page']}",
    }
    for kind in (*(exchange.value for exchange in Exchange), SIDE):
        rules[f".edge.{kind}"] = rules[f".pill.{kind}"] = f"stroke: {scheme[kind]}"
        rules[f".head.{kind}"] = rules[f".pill-text.{kind}"] = f"fill: {scheme[kind]}"
    return "".join(f".sparkbeam-plan {what} {{ {how}; }}\n" for what, how in rules.items())


# The page.


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
  font-family: $font; color: $text; background: $page; }
h1 { font-size: 24px; overflow-wrap: anywhere; }
h2 { font-size: 18px; margin-top: 32px; }
pre, .picture { overflow-x: auto; border: 1px solid $border; border-radius: 6px; }
pre { padding: 12px; font-size: 13px; line-height: 1.45; background: $box; }
.picture { position: relative; scroll-snap-type: x proximity; }
.start { position: absolute; scroll-snap-align: center; }
svg { display: block; margin: 0 auto; }
@media (prefers-color-scheme: dark) {
  body { color: $dark_text; background: $dark_page; }
  pre, .picture { border-color: $dark_border; }
  pre { background: $dark_box; }
}
</style>
</head>
<body>
<h1>$title</h1>
<h2>How the stages connect</h2>
<div class="picture"><span class="start" style="left: ${start}px"></span>$picture</div>
$sections
</body>
</html>
""")


def page(
    plan: Plan,
    title: str,
    sections: Mapping[str, str],
    figures: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """Return an HTML document with the picture and texts under headings.

    Args:
        plan: the plan of the picture.
        title: the heading of the page.
        sections: preformatted texts by heading.
        figures: see :func:`svg`.
    """
    drawing, start = _drawing(sketch(plan), figures or {})
    return _PAGE.substitute(
        {
            **_LIGHT,
            **{f"dark_{name}": colour for name, colour in _DARK.items()},
            "font": _FONT,
            "title": html.escape(_legal(title)),
            "picture": ET.tostring(drawing, encoding="unicode"),
            # Initial scroll position on screens narrower than the picture.
            "start": _number(start),
            "sections": "\n".join(
                f"<h2>{html.escape(heading)}</h2>\n<pre>{html.escape(_legal(text))}</pre>"
                for heading, text in sections.items()
            ),
        }
    )


# Text in boxes.


def _lines(labels: Sequence[str]) -> list[str]:
    """Wrap labels to the width of a box; the tooltip shows what does not fit."""
    lines = [line for label in labels for line in _wrapped(_legal(label))]
    if len(lines) > _MOST_LINES:
        hidden = len(lines) - _MOST_LINES + 1
        lines[_MOST_LINES - 1 :] = [f"… {hidden} more lines"]
    return lines


def _wrapped(label: str) -> list[str]:
    """Wrap a label, with continuation lines indented."""
    lines = [""]
    for piece in _pieces(label):
        if lines[-1].strip() and cells(lines[-1] + piece) > _LINE_CHARACTERS:
            lines.append(_INDENT)
        lines[-1] += piece
    return lines


def _pieces(label: str) -> list[str]:
    """Split a label after spaces, slashes, commas and parentheses, or elsewhere if necessary."""
    pieces = [""]
    for character in label:
        pieces[-1] += character
        if character in " /(," or cells(_INDENT + pieces[-1]) >= _LINE_CHARACTERS:
            pieces.append("")
    return pieces


def _legal(text: str) -> str:
    """Return a text without the control characters and lone surrogates that XML forbids."""
    return "".join("\N{REPLACEMENT CHARACTER}" if _forbidden(c) else c for c in text)


def _forbidden(character: str) -> bool:
    control = unicodedata.category(character) in ("Cc", "Cs") and character not in "\n\t"
    return control or character in "\ufffe\uffff"


def _element(parent: ET.Element, tag: str, kind: str, **attributes: float | str) -> ET.Element:
    values = {
        name: value if isinstance(value, str) else _number(value)
        for name, value in attributes.items()
    }
    return ET.SubElement(parent, tag, {"class": kind, **values})


def _point(point: tuple[float, float]) -> str:
    return f"{_number(point[0])} {_number(point[1])}"


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
