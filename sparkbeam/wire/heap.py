"""Limits of row sizes: the JVM must hold a row as one piece, in several copies."""

from collections.abc import Iterable
from dataclasses import dataclass

_LARGEST = (1 << 31) - (1 << 20)
"""Limit of Java arrays, Arrow values and Spark rows, below 2 GiB."""

_COPIES = 2
"""Spark's heap holds a row at least twice: from Arrow, and as a Spark row."""

_GIB, _MIB = 1 << 30, 1 << 20


class RowTooLarge(Exception):
    """Spark cannot receive a row; the message has its size, the memory and the remedy."""


@dataclass(frozen=True)
class Heap:
    """Memory of the JVM that receives the rows of a worker.

    Attributes:
        size: in bytes; None if unknown.
    """

    size: int | None = None
    setting: str = "spark.executor.memory"

    def check(self, sizes: Iterable[int]) -> None:
        """Check that the JVM can receive rows of some sizes.

        Raises:
            RowTooLarge: one is too large.
        """
        size = max(sizes)
        if size > _LARGEST:
            raise RowTooLarge(
                f"an element of {shown_bytes(size)} is too large: Spark accepts less than 2 GiB "
                f"per row. {_SMALLER}"
            )
        if size > self.most:
            assert self.size is not None
            raise RowTooLarge(
                f"an element of {shown_bytes(size)} is too large for Spark's JVM, which has "
                f"{shown_bytes(self.size)} of memory ({self.setting}) and holds an element "
                f"at least {_COPIES} times. Increase this memory "
                f"(--spark_conf={self.setting}={1 + 8 * size // _GIB}g). {_SMALLER}"
            )

    @property
    def most(self) -> int:
        """Largest row in bytes."""
        return _LARGEST if self.size is None else min(self.size // _COPIES, _LARGEST)


_SMALLER = (
    "Elements that are emitted in parts, or hold the name of a file instead of its content, "
    "need no more memory for more data."
)


def shown_bytes(size: int) -> str:
    """Format a size."""
    return f"{size / _GIB:.1f} GiB" if size >= _GIB else f"{size / _MIB:.0f} MiB"


class _WorkerHeap:
    """Heap for the rows of this process."""

    heap = Heap()


WORKER_HEAP = _WorkerHeap()
