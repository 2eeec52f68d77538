"""Tables of texts, for notebooks and in plain text."""

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from sparkbeam.common.display_text import line

_MOST_ROWS = 200


def table_html(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    left: int = 1,
    colours: dict[str, str] | None = None,
) -> str:
    """Return a table of HTML.

    Args:
        rows: texts; later ones of very many are left out.
        left: the number of columns that are not figures.
        colours: of some texts in other columns than the first.
    """
    listed = list(rows)
    sides = ["left" if index < left else "right" for index in range(len(head))]
    lines = [_row("th", head, sides, {})]
    lines += [_row("td", row, sides, colours or {}) for row in listed[:_MOST_ROWS]]
    if len(listed) > _MOST_ROWS:
        lines.append(_row("td", [f"… {len(listed) - _MOST_ROWS:,} more"], sides, {}))
    return f'<table style="border-collapse:collapse">{"".join(lines)}</table>'


def _row(kind: str, cells: Iterable[str], sides: Sequence[str], colours: dict[str, str]) -> str:
    content = "".join(
        f'<{kind} style="text-align:{side};padding:2px 12px 2px 0;vertical-align:top'
        f'{f";color:{colours[cell]}" if at and cell in colours else ""}">'
        f"{escape(line(cell))}</{kind}>"
        for at, (cell, side) in enumerate(zip(cells, sides, strict=False))
    )
    return f"<tr>{content}</tr>"


def table_lines(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield aligned lines: the first column to the left, the last as it is, others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for label, *figures, last in rows:
        aligned = map(str.rjust, figures, widths[1:])
        yield "  ".join([label.ljust(widths[0]), *aligned, last]).rstrip()
