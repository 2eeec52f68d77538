"""HTML for notebooks: progress, result and metrics of a run."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape

from sparkbeam.common.display_text import line
from sparkbeam.progress import words
from sparkbeam.progress.snapshot import PipelineProgress, Progress, StageState, StreamingProgress

_COLOURS = {
    StageState.WAITING: "#8a8a8a",
    StageState.RUNNING: "#1f77b4",
    StageState.DONE: "#2e8b57",
    StageState.FAILED: "#c62828",
    StageState.STOPPED: "#b8860b",
}
_LEFT, _RIGHT = "left", "right"
_MOST_ROWS = 200


def progress_html(progress: Progress, seconds: float | None = None) -> str:
    """Return a table of the stages with a summary line.

    Args:
        progress: the progress to show.
        seconds: seconds since the start of the run, if known.
    """
    table = _streaming(progress) if isinstance(progress, StreamingProgress) else _batch(progress)
    return f"<div>{table}<div>{escape(words.summary(progress, seconds))}</div></div>"


def table_html(head: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """Return a table of HTML cells; all columns but the first ``left`` ones are figures."""
    listed = list(rows)
    sides = [_LEFT if index < left else _RIGHT for index in range(len(head))]
    lines = [_row("th", map(escape, head), sides)]
    lines += [_row("td", row, sides) for row in listed[:_MOST_ROWS]]
    if len(listed) > _MOST_ROWS:
        lines.append(_row("td", [f"… {len(listed) - _MOST_ROWS:,} more"], sides))
    return f'<table style="border-collapse:collapse">{"".join(lines)}</table>'


def _row(kind: str, cells: Iterable[str], sides: Sequence[str]) -> str:
    content = "".join(
        f'<{kind} style="text-align:{side};padding:2px 12px 2px 0;vertical-align:top">'
        f"{cell}</{kind}>"
        for cell, side in zip(cells, sides, strict=False)
    )
    return f"<tr>{content}</tr>"


def _batch(progress: PipelineProgress) -> str:
    head = ("stage", "state", "tasks", "elements", "rate", "time")
    return table_html(
        head,
        (
            (
                escape(line(stage.name)),
                f'<span style="color:{_COLOURS[stage.state]}">{stage.state}</span>',
                escape(words.tasks(stage)),
                escape(words.elements(stage)),
                escape(words.rate(stage)),
                words.duration(stage.seconds) if stage.tasks_started else "",
            )
            for stage in progress.stages
        ),
        left=2,
    )


def _streaming(progress: StreamingProgress) -> str:
    return f"{_stages(progress)}{_partitions(progress) if progress.partitions else ''}"


def _partitions(progress: StreamingProgress) -> str:
    rows = (map(escape, words.partition(partition)) for partition in progress.partitions)
    return table_html(words.OF_PARTITIONS, map(tuple, rows))


def _stages(progress: StreamingProgress) -> str:
    head = ("stage", "elements", "rate", "watermark", "held", "state", "late")
    today = datetime.now(UTC).date()
    return table_html(
        head,
        (
            (
                escape(line(stage.name)),
                f"{stage.busiest:,}",
                escape(words.rate(stage)),
                escape(words.moment(stage.output_watermark, today)),
                escape(words.delay(stage)),
                escape(words.state(stage)),
                escape(words.late(stage)),
            )
            for stage in progress.stages
        ),
    )
