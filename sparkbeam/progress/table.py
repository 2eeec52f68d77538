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


def progress_table(
    progress: PipelineProgress, seconds: float, *, width: int, height: int
) -> Table:
    """One line a stage and a summary, in ``width`` columns and ``height`` lines.

    Where the stages are too many, those that run or have failed are listed.
    """
    stages = _listed(progress.stages, max(1, height - 1))
    cells = [
        (str(stage.state), words.tasks(stage), words.elements(stage), words.rate(stage))
        for stage in stages
    ]
    fixed = sum(max(map(len, column)) + _GAP for column in zip(*cells, strict=True))
    table = Table(
        box=None,
        show_header=False,
        padding=(0, _GAP, 0, 0),
        pad_edge=False,
        caption=Text(words.summary(progress, seconds)),
        caption_justify="left",
    )
    for justify in ("left", "left", "right", "right", "right"):
        table.add_column(justify=justify, no_wrap=True, overflow="crop")
    for stage, (state, *figures) in zip(stages, cells, strict=True):
        style = _STYLES[stage.state]
        name = words.shortened(stage.name, max(_MIN_NAME, width - fixed))
        table.add_row(Text(name), Text(state, style), *map(Text, figures))
    return table


def _listed(stages: tuple[StageProgress, ...], limit: int) -> list[StageProgress]:
    if len(stages) <= limit:
        return list(stages)
    quiet = (StageState.WAITING, StageState.DONE)
    return [stage for stage in stages if stage.state not in quiet][:limit]
