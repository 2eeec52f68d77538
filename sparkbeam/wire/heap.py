"""How large a row may be: the JVM that takes it has to hold it, in one piece and several copies."""

from collections.abc import Iterable
from dataclasses import dataclass

_LARGEST = (1 << 31) - (1 << 20)
"""An array of Java, a value of an Arrow column and a row of Spark have less than 2 GiB."""

_COPIES = 2
"""Spark has a row twice in its heap at least: as it came out of Arrow, and as its own row."""

_GIB, _MIB = 1 << 30, 1 << 20


class RowTooLarge(Exception):
    """Spark cannot take a row; the message has its size, the memory and the remedy."""


@dataclass(frozen=True)
class Heap:
    """The memory of the JVM that takes the rows of a worker.

    Attributes:
        size: in bytes; None where it is not known.
        setting: of Spark's that it has from.
    """

    size: int | None = None
    setting: str = "spark.executor.memory"

    def check(self, sizes: Iterable[int]) -> None:
        """Sees to it that rows of some sizes can be taken.

        Raises:
            RowTooLarge: one cannot.
        """
        size = max(sizes)
        if size > _LARGEST:
            raise RowTooLarge(
                f"an element of {shown_bytes(size)} is too large: Spark takes less than 2 GiB in a "
                f"row. {_SMALLER}"
            )
        if size > self.most:
            assert self.size is not None
            raise RowTooLarge(
                f"an element of {shown_bytes(size)} is too large for Spark's JVM, which has "
                f"{shown_bytes(self.size)} of memory ({self.setting}) and holds an element "
                f"{_COPIES} times at least. Give it more "
                f"(--spark_conf={self.setting}={_enough(size)}g). {_SMALLER}"
            )

    @property
    def most(self) -> int:
        """The bytes of a row above which it cannot be taken."""
        return _LARGEST if self.size is None else min(self.size // _COPIES, _LARGEST)


_SMALLER = (
    "Elements that are put out in parts, or hold the name of a file in place of its content, "
    "need no more memory however much data there is."
)


def _enough(size: int) -> int:
    """Gibibytes in which a row has room beside others."""
    return 1 + 8 * size // _GIB


def shown_bytes(size: int) -> str:
    """A size as people say it."""
    return f"{size / _GIB:.1f} GiB" if size >= _GIB else f"{size / _MIB:.0f} MiB"


class _Here:
    """The heap for the rows of this process."""

    heap = Heap()


HERE = _Here()
