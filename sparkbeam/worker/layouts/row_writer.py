"""What writes a layout."""

from abc import ABC, abstractmethod
from collections.abc import Callable

from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.worker.blocks import Block
from sparkbeam.worker.keyed_aggregates import ExtraElements, KeyedAggregates
from sparkbeam.worker.refusals import count_refused

Batch = Block | KeyedAggregates | ExtraElements
"""Many elements, or partial results of them."""


class Sink(ABC):
    """Turns the elements of one port into rows.

    The bundle calls ``add`` for a single element, ``write`` for a batch and ``flush`` once at its
    end; rows may leave at any time between.

    Attributes:
        refused: is told why elements of a block of columns are written one by one.
    """

    refused: Callable[[str], None] = staticmethod(count_refused)

    @abstractmethod
    def add(self, windowed_value: WindowedValue) -> None:
        """Writes an element."""

    def write(self, batch: Batch) -> None:
        """Writes a batch, of which a sink takes at once what it can; else element by element."""
        for element in batch.elements():
            self.add(element)

    @abstractmethod
    def flush(self) -> None:
        """Turns what is held back into rows."""
