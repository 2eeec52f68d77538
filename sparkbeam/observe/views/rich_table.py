"""Progress as a table on a terminal."""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from sparkbeam.observe.figures.formats import shortened
from sparkbeam.observe.figures.progress import (
    Progress,
    StageProgress,
    StageState,
    StreamingProgress,
    headline,
    stage_table,
)

_STYLES = {
    str(StageState.WAITING): "dim",
    str(StageState.RUNNING): "cyan",
    str(StageState.DONE): "green",
    str(StageState.FAILED): "bold red",
    str(StageState.STOPPED): "yellow",
}
_LATE = "yellow"
_TIME = "time"
"""Column that only notebooks have room for."""

_MIN_NAME = 12
_GAP = 2


def progress_table(progress: Progress, seconds: float, *, width: int, height: int) -> Table:
    """Return a table with a line per stage and a summary, fitting ``width`` and ``height``.

    If there are too many stages, it lists those that run or have failed; in streaming those with
    the most elements.
    """
    stages = _listed(progress, max(1, height - 1))
    names, left, texts_of = stage_table(progress)
    texts = [texts_of(stage) for stage in stages]
    cells = ([_cell(name, found[name]) for found in texts] for name in names if name != _TIME)
    columns = [column for column in cells if any(column)]
    while len(columns) > 1 and _width(columns) > width - _MIN_NAME:
        columns.pop()
    room = width - _width(columns)
    lines = Table.grid(padding=(0, _GAP, 0, 0))
    for index in range(len(columns) + 1):
        lines.add_column(justify="left" if index < left else "right", no_wrap=True)
    for stage, *figures in zip(stages, *columns, strict=True):
        lines.add_row(Text(shortened(stage.name, room)), *figures)
    table = Table.grid()
    table.add_column(no_wrap=True, overflow="crop")
    table.add_row(lines)
    table.add_row(headline(progress, seconds))
    return table


def _cell(column: str, text: str) -> Text:
    return Text(text, _LATE if column == "late" else _STYLES.get(text, ""))


def _width(columns: list[list[Text]]) -> int:
    return sum(_GAP + max(map(len, column), default=0) for column in columns)


def _listed(progress: Progress, limit: int) -> Sequence[StageProgress]:
    """Return the stages that the table has room for."""
    stages = progress.stages
    if len(stages) <= limit:
        return stages
    if isinstance(progress, StreamingProgress):
        most = sorted(stages, key=lambda stage: -stage.busiest)[:limit]
        return [stage for stage in stages if stage in most][:limit]
    quiet = (StageState.WAITING, StageState.DONE)
    return [stage for stage in stages if stage.state not in quiet][:limit]
