"""Keys with far more data than others, and what helps."""

from sparkbeam.metrics.summary import StageSummary
from sparkbeam.plan.model import Exchange, Layout, Stage
from sparkbeam.progress import words

LEAST = 256 << 20
"""A partition is told from so many bytes on, as Spark has it of joins."""

TIMES = 5
"""So many times as large as the median it has to be, as well."""

_JOIN = (
    "Spark divides the partitions of a Join where `how` allows that, at the ends of what single "
    "tasks have written: let more of them write the side"
)
_COMBINE = (
    "CombinePerKey(…).with_hot_key_fanout(…) merges the accumulators of a key in several tasks"
)
_GROUP = (
    "sparkbeam.Join in the place of a CoGroupByKey divides such keys between tasks, and "
    "CombinePerKey in the place of a GroupByKey adds up before the shuffle, with "
    "with_hot_key_fanout(…) in several tasks behind it"
)
_STATE = "the elements and the state of a key are in one task: a finer key spreads them"


def skewed(stage: Stage, done: StageSummary) -> str | None:
    """How much larger the largest partition of a stage is than others, and the remedy.

    Args:
        stage: of the plan.
        done: what a run has done of it.

    Returns:
        Words; None where the stage reads no shuffle by key, or an even one.
    """
    if stage.exchange not in (Exchange.BY_KEY, Exchange.JOIN) or not done.spark:
        return None
    spark = max(done.spark, key=lambda one: one.largest_bytes)
    largest, median = spark.largest_bytes, spark.median_bytes
    if largest <= LEAST or largest <= TIMES * median:
        return None
    times = f", {largest / median:,.0f} times as much as the median" if median else ""
    return f"the largest partition has {words.size(largest)}{times}: {_remedy(stage)}"


def _remedy(stage: Stage) -> str:
    if stage.join is not None:
        return _JOIN
    if stage.grouping is None or stage.layout in (Layout.KEYED, Layout.TIME_SORTED):
        return _STATE
    return _COMBINE if stage.grouping.combines else _GROUP
