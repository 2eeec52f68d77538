"""Progress as a table on a terminal."""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from sparkbeam.observe.figures.formats import shortened
from sparkbeam.observe.figures.progress import (
    BATCH_COLUMNS,
    STREAMING_COLUMNS,
    PipelineProgress,
    Progress,
    StageProgress,
    StageState,
    StreamingProgress,
    StreamingStageProgress,
    Texts,
    batch_texts,
    headline,
    streaming_texts,
)

_STYLES = {
    str(StageState.WAITING): "dim",
    str(StageState.RUNNING): "cyan",
    str(StageState.DONE): "green",
    str(StageState.FAILED): "bold red",
    str(StageState.STOPPED): "yellow",
}
_LATE = "yellow"
_MIN_NAME = 12
_GAP = 2


def progress_table(progress: Progress, seconds: float, *, width: int, height: int) -> Table:
    """Return a table with a line per stage and a summary, fitting ``width`` and ``height``.

    If there are too many stages, it lists those that run or have failed; in streaming those with
    the most elements.
    """
    limit = max(1, height - 1)
    if isinstance(progress, StreamingProgress):
        busiest = _busiest(progress.stages, limit)
        stages = [(stage.name, streaming_texts(stage)) for stage in busiest]
        columns, left = _columns(stages, STREAMING_COLUMNS), 1
    else:
        stages = [(stage.name, batch_texts(stage)) for stage in _listed(progress, limit)]
        columns, left = _columns(stages, BATCH_COLUMNS[:-1]), 2
    while len(columns) > 1 and _width(columns) > width - _MIN_NAME:
        columns.pop()
    room = width - _width(columns)
    lines = Table.grid(padding=(0, _GAP, 0, 0))
    for index in range(len(columns) + 1):
        lines.add_column(justify="left" if index < left else "right", no_wrap=True)
    for (name, _), *figures in zip(stages, *columns, strict=True):
        lines.add_row(Text(shortened(name, room)), *figures)
    table = Table.grid()
    table.add_column(no_wrap=True, overflow="crop")
    table.add_row(lines)
    table.add_row(headline(progress, seconds))
    return table


def _columns(stages: Sequence[tuple[str, Texts]], names: Sequence[str]) -> list[list[Text]]:
    """Return the columns beside the names of the stages; empty ones are left out."""
    columns = ([_cell(name, texts[name]) for _, texts in stages] for name in names)
    return [column for column in columns if any(column)]


def _cell(column: str, text: str) -> Text:
    return Text(text, _LATE if column == "late" else _STYLES.get(text, ""))


def _width(columns: list[list[Text]]) -> int:
    return sum(_GAP + max(map(len, column), default=0) for column in columns)


def _listed(progress: PipelineProgress, limit: int) -> Sequence[StageProgress]:
    if len(progress.stages) <= limit:
        return progress.stages
    quiet = (StageState.WAITING, StageState.DONE)
    return [stage for stage in progress.stages if stage.state not in quiet][:limit]


def _busiest(
    stages: tuple[StreamingStageProgress, ...], limit: int
) -> list[StreamingStageProgress]:
    most = sorted(stages, key=lambda stage: -stage.busiest)[:limit]
    return [stage for stage in stages if stage in most][:limit]
