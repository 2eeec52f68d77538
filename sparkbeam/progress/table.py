"""Progress as a table, for terminals and notebooks."""

from rich.table import Table
from rich.text import Text

from sparkbeam.progress import words
from sparkbeam.progress.model import PipelineProgress, StageProgress, StageState

_STYLES = {
    StageState.WAITING: "dim",
    StageState.RUNNING: "cyan",
    StageState.DONE: "green",
    StageState.FAILED: "bold red",
    StageState.STOPPED: "yellow",
}
_MIN_NAME = 12
_GAP = 2


def progress_table(progress: PipelineProgress, seconds: float, *, width: int, height: int) -> Table:
    """One line a stage and a summary, in ``width`` columns and ``height`` lines.

    Where the stages are too many, those that run or have failed are listed.
    """
    stages = _listed(progress.stages, max(1, height - 1))
    columns: list[list[str]] = [
        [str(stage.state) for stage in stages],
        [words.tasks(stage) for stage in stages],
        [words.elements(stage) for stage in stages],
        [words.rate(stage) for stage in stages],
    ]
    while len(columns) > 1 and _width(columns) > width - _MIN_NAME:
        columns.pop()
    room = width - _width(columns)
    lines = Table.grid(padding=(0, _GAP, 0, 0))
    for index in range(len(columns) + 1):
        lines.add_column(justify="left" if index < 2 else "right", no_wrap=True)
    for stage, state, *figures in zip(stages, *columns, strict=True):
        name = Text(words.shortened(stage.name, room))
        lines.add_row(name, Text(state, _STYLES[stage.state]), *map(Text, figures))
    table = Table.grid()
    table.add_column(no_wrap=True, overflow="crop")
    table.add_row(lines)
    table.add_row(words.summary(progress, seconds))
    return table


def _width(columns: list[list[str]]) -> int:
    return sum(_GAP + max(map(len, column), default=0) for column in columns)


def _listed(stages: tuple[StageProgress, ...], limit: int) -> list[StageProgress]:
    if len(stages) <= limit:
        return list(stages)
    quiet = (StageState.WAITING, StageState.DONE)
    return [stage for stage in stages if stage.state not in quiet][:limit]
