"""Progress in words and figures, shared by all screens."""

from collections.abc import Iterable
from datetime import date
from unicodedata import east_asian_width

from apache_beam.utils.timestamp import MAX_TIMESTAMP, Timestamp

from sparkbeam.common.display_text import line
from sparkbeam.common.secret_patterns import hidden
from sparkbeam.progress.partitions import PartitionProgress
from sparkbeam.progress.snapshot import (
    PipelineProgress,
    Progress,
    StageProgress,
    StageState,
    StreamingProgress,
    StreamingStageProgress,
)

_CUT = "..."
_UNKNOWN = "-"
_END = "end"
_KILO = 1000
_LEAST_RATE = 0.5


def summary(progress: Progress, seconds: float | None = None) -> str:
    """Summarize the pipeline in one line, with the time since its start if known."""
    after = "" if seconds is None else f" after {duration(seconds)}"
    if isinstance(progress, StreamingProgress):
        return ",".join(filter(None, [", ".join(_of_query(progress)), after]))
    return f"{', '.join(_of_stages(progress))}{after}"


def _of_stages(progress: PipelineProgress) -> list[str]:
    states = [f"{progress.count(StageState.DONE)} of {len(progress.stages)} stages done"]
    states += [
        f"{progress.count(state)} {state}"
        for state in (StageState.RUNNING, StageState.FAILED, StageState.STOPPED)
        if progress.count(state)
    ]
    return states


def _of_query(progress: StreamingProgress) -> list[str]:
    parts = []
    if progress.state is not StageState.RUNNING:
        parts.append(str(progress.state))
    if progress.micro_batch:
        parts.append(f"micro-batch {progress.micro_batch}")
    if progress.state is StageState.RUNNING:
        parts += [duration(progress.batch_seconds), f"{progress.per_second:,.0f} elements/s"]
        if progress.lag_seconds is not None:
            parts.append(f"{duration(progress.lag_seconds)} behind")
    backlog, slow = left(progress.partitions), slowest(progress.partitions)
    parts += [f"{backlog} left to read"] * bool(backlog) + [slow] * bool(slow)
    if progress.dropped_late:
        elements = "element" if progress.dropped_late == 1 else "elements"
        parts.append(f"{progress.dropped_late:,} late {elements} dropped")
    return parts


def left(partitions: Iterable[PartitionProgress]) -> str:
    """Format the number of events waiting in event hubs."""
    count = sum(partition.lag for partition in partitions)
    return f"{count:,} {'event' if count == 1 else 'events'}" if count else ""


def slowest(partitions: Iterable[PartitionProgress]) -> str:
    """Describe the partition with the smallest fraction of its share, if it is slow."""
    least = min(partitions, key=lambda partition: partition.factor, default=None)
    if least is None or least.factor >= 1:
        return ""
    return f"partition {least.partition} slow, at {least.factor:.3g}"


OF_PARTITIONS = ("read by", "partition", "left", "factor", "last read", "took")
"""Column headings of the table of partitions."""


def partition(of: PartitionProgress) -> tuple[str, ...]:
    """Format a row of the table of partitions."""
    took = (f"{of.events:,}", duration(of.seconds)) if of.events else ("", "")
    return line(of.step), str(of.partition), f"{of.lag:,}", f"{of.factor:.3g}", *took


def tasks(stage: StageProgress) -> str:
    """Format done and started tasks, and failed attempts."""
    if not stage.tasks_started:
        return ""
    failed = f", {stage.tasks_failed} failed" if stage.tasks_failed else ""
    return f"{stage.tasks_done}/{stage.tasks_started}{failed}"


def elements(stage: StageProgress) -> str:
    """Format the elements of the busiest PCollection."""
    return f"{stage.busiest:,}" if stage.tasks_started else ""


def rate(stage: StageProgress | StreamingStageProgress) -> str:
    """Format the elements per second of the busiest PCollection."""
    return f"{stage.per_second:,.0f}/s" if stage.per_second >= _LEAST_RATE else ""


def moment(watermark: Timestamp | None, today: date) -> str:
    """Format a watermark in UTC: the time, with the date unless it is today."""
    if watermark is None:
        return _UNKNOWN
    if watermark >= MAX_TIMESTAMP:
        return _END
    try:
        found = watermark.to_utc_datetime().replace(microsecond=0)
    except (OverflowError, ValueError):
        return _UNKNOWN  # It is in a year that Python does not know.
    return f"{found:%H:%M:%S}" if found.date() == today else f"{found:%Y-%m-%d %H:%M:%S}"


def delay(stage: StreamingStageProgress) -> str:
    """Format the distance of the output watermark behind that of unbounded input."""
    held = stage.held_seconds
    return "" if held is None else f"held {duration(held)}"


def holder(stage: StreamingStageProgress, today: date) -> str:
    """Describe the timer, window or state that holds the watermark, with its end and step."""
    found = stage.holder
    if found is None or not delay(stage):
        return ""
    until = "" if found.until is None else f" until {moment(found.until, today)}"
    step = f", in {found.step}" if found.step not in ("", stage.name) else ""
    return f"{found.what} of {found.key}{until}{step}"


def busy(stage: StreamingStageProgress) -> str:
    """Format the number of busy tasks in the last micro-batch, with the largest of several."""
    most = f", {stage.busiest_task:,} elements at most" if stage.tasks_busy > 1 else ""
    return f"{stage.tasks_busy:,}{most}" if stage.tasks_busy else ""


def state(stage: StreamingStageProgress) -> str:
    """Format keys and bytes of state."""
    keys = "1 key" if stage.keys == 1 else f"{stage.keys:,} keys"
    return f"{keys}, {size(stage.state_bytes)}" if stage.keys or stage.state_bytes else ""


def late(stage: StreamingStageProgress) -> str:
    """Format the number of dropped late elements."""
    return f"{stage.dropped_late:,} late" if stage.dropped_late else ""


def size(count: int) -> str:
    """Format bytes, such as 512 B or 3.4 MB."""
    if count < _KILO:
        return f"{count} B"
    amount = float(count)
    for unit in ("kB", "MB", "GB"):
        amount /= _KILO
        if amount < _KILO:
            return f"{amount:.1f} {unit}"
    return f"{amount / _KILO:.1f} TB"


def shortened(text: str, width: int) -> str:
    """Shorten ``text`` to ``width`` columns in the middle, as the ends are most telling."""
    text = line(hidden(text))
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
    """Format a duration, such as 3.2 s, 4:05 min or 1:02:03 h."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes}:{rest:02} min"
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02} h"
