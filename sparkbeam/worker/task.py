"""The task of Spark that a process runs, in batch and in streaming."""

import contextlib
import ctypes
import functools
import gc
from collections.abc import Iterable

import pyarrow as pa
from pyspark import TaskContext

_ARENA_MAX, _MMAP_THRESHOLD, _TRIM_THRESHOLD = -8, -3, -1
"""Parameters of ``mallopt``, of the GNU C library."""
_LARGEST_KEPT, _KEPT = 32 << 20, 128 << 20


@functools.cache
def tune_worker() -> None:
    """Keep a Spark worker from work that is in vain.

    Loaded objects stay loaded: a search of all of Beam by the garbage collector, which Spark has
    it do after each task, takes longer than a small task. A table of a million lists is no reason
    to look for cycles each 700 of them.

    Columns come and go, a few megabytes each. The C library would give each back to the system,
    and the system clear the memory of the next one, which takes longer than most kernels.
    """
    if TaskContext.get() is None:
        return
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)
    # Another C library has no such function, or other parameters.
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_ARENA_MAX, 1)
        mallopt(_MMAP_THRESHOLD, _LARGEST_KEPT)
        mallopt(_TRIM_THRESHOLD, _KEPT)


def partition_id() -> int:
    """Return the number of the Spark task's partition; 0 outside of Spark."""
    context = TaskContext.get()
    return context.partitionId() if context is not None else 0


def task_numbers(batches: Iterable[pa.RecordBatch]) -> list[int]:
    """Return the numbers that Spark gives a task in place of rows."""
    # Spark reuses a worker only if it has read its input to the end.
    return [number for batch in batches for number in batch.column(0).to_pylist()]


def spark_stage() -> int:
    """Return the number of Spark's stage that the task is one of; -1 outside of Spark."""
    context = TaskContext.get()
    return context.stageId() if context is not None else -1
