"""Progress in words and figures, as all screens say it."""

from unicodedata import east_asian_width

from sparkbeam.progress.model import PipelineProgress, StageProgress, StageState

_CUT = "..."


def summary(progress: PipelineProgress, seconds: float) -> str:
    """The whole pipeline in one line."""
    states = [f"{progress.count(StageState.DONE)} of {len(progress.stages)} stages done"]
    states += [
        f"{progress.count(state)} {state}"
        for state in (StageState.RUNNING, StageState.FAILED, StageState.STOPPED)
        if progress.count(state)
    ]
    return f"{', '.join(states)} after {duration(seconds)}"


def tasks(stage: StageProgress) -> str:
    """Tasks done of those started, and failed attempts."""
    if not stage.tasks_started:
        return ""
    failed = f", {stage.tasks_failed} failed" if stage.tasks_failed else ""
    return f"{stage.tasks_done}/{stage.tasks_started}{failed}"


def elements(stage: StageProgress) -> str:
    """The elements of the busiest PCollection."""
    return f"{stage.busiest:,}" if stage.tasks_started else ""


def rate(stage: StageProgress) -> str:
    """The same per second."""
    return f"{stage.per_second:,.0f}/s" if stage.per_second else ""


def shortened(text: str, width: int) -> str:
    """``text`` in ``width`` columns: both of its ends, as they tell most."""
    columns = [2 if east_asian_width(character) in "WF" else 1 for character in text]
    if sum(columns) <= width:
        return text
    first, last, room = 0, len(text), width - len(_CUT)
    while first < last:
        take_first = sum(columns[:first]) <= sum(columns[last:])
        room -= columns[first] if take_first else columns[last - 1]
        if room < 0:
            break
        first, last = (first + 1, last) if take_first else (first, last - 1)
    return text[:first] + _CUT + text[last:]


def duration(seconds: float) -> str:
    """Such as 3.2 s, 4:05 min or 1:02:03 h."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes}:{rest:02} min"
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02} h"
