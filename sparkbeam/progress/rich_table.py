"""Progress as a table, for terminals and notebooks."""

from datetime import UTC, datetime

from rich.table import Table
from rich.text import Text

from sparkbeam.progress import words
from sparkbeam.progress.snapshot import (
    PipelineProgress,
    Progress,
    StageProgress,
    StageState,
    StreamingProgress,
    StreamingStageProgress,
)

_STYLES = {
    StageState.WAITING: "dim",
    StageState.RUNNING: "cyan",
    StageState.DONE: "green",
    StageState.FAILED: "bold red",
    StageState.STOPPED: "yellow",
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
        names, columns = _streaming(progress, limit)
        left = 1
    else:
        names, columns = _batch(progress, limit)
        left = 2
    while len(columns) > 1 and _width(columns) > width - _MIN_NAME:
        columns.pop()
    room = width - _width(columns)
    lines = Table.grid(padding=(0, _GAP, 0, 0))
    for index in range(len(columns) + 1):
        lines.add_column(justify="left" if index < left else "right", no_wrap=True)
    for name, *figures in zip(names, *columns, strict=True):
        lines.add_row(Text(words.shortened(name, room)), *figures)
    table = Table.grid()
    table.add_column(no_wrap=True, overflow="crop")
    table.add_row(lines)
    table.add_row(words.summary(progress, seconds))
    return table


def _batch(progress: PipelineProgress, limit: int) -> tuple[list[str], list[list[Text]]]:
    """Return the names of the listed stages, and the columns beside them."""
    stages = _listed(progress.stages, limit)
    return [stage.name for stage in stages], [
        [Text(stage.state, _STYLES[stage.state]) for stage in stages],
        [Text(words.tasks(stage)) for stage in stages],
        [Text(words.elements(stage)) for stage in stages],
        [Text(words.rate(stage)) for stage in stages],
    ]


def _streaming(progress: StreamingProgress, limit: int) -> tuple[list[str], list[list[Text]]]:
    """Return the same for streaming; empty columns are left out."""
    stages = _busiest(progress.stages, limit)
    today = datetime.now(UTC).date()
    columns = [
        [Text(f"{stage.busiest:,}") for stage in stages],
        [Text(words.rate(stage)) for stage in stages],
        [Text(words.moment(stage.output_watermark, today)) for stage in stages],
        [Text(words.delay(stage)) for stage in stages],
        [Text(words.state(stage)) for stage in stages],
        [Text(words.late(stage), _LATE) for stage in stages],
    ]
    return [stage.name for stage in stages], [column for column in columns if any(column)]


def _width(columns: list[list[Text]]) -> int:
    return sum(_GAP + max(map(len, column), default=0) for column in columns)


def _listed(stages: tuple[StageProgress, ...], limit: int) -> list[StageProgress]:
    if len(stages) <= limit:
        return list(stages)
    quiet = (StageState.WAITING, StageState.DONE)
    return [stage for stage in stages if stage.state not in quiet][:limit]


def _busiest(
    stages: tuple[StreamingStageProgress, ...], limit: int
) -> list[StreamingStageProgress]:
    most = sorted(stages, key=lambda stage: -stage.busiest)[:limit]
    return [stage for stage in stages if stage in most][:limit]
