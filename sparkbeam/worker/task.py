"""The task of Spark that a process runs, in batch and in streaming."""

import functools
import gc


@functools.cache
def settle() -> None:
    """Spares the garbage collector what it would look through in vain.

    What is loaded by now stays loaded: to look through all of Beam, as Spark
    makes it do after each task, takes longer than a small task. And a table of
    a million lists is no reason to look for cycles each 700 of them.
    """
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)


def partition_id() -> int:
    """The number of the Spark task's partition; 0 outside of Spark."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return context.partitionId() if context is not None else 0


def spark_stage() -> int:
    """The number of Spark's stage that the task is one of; -1 outside of Spark."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return context.stageId() if context is not None else -1
