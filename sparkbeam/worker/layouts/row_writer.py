"""Writers of layouts."""

from abc import ABC, abstractmethod
from collections.abc import Callable

from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.worker.blocks import Block
from sparkbeam.worker.keyed_aggregates import ExtraElements, KeyedAggregates
from sparkbeam.worker.refusals import count_refused

Batch = Block | KeyedAggregates | ExtraElements
"""Many elements, or partial aggregates of them."""


class Sink(ABC):
    """Writer of the elements of one port as rows.

    The bundle calls ``add`` for a single element, ``write`` for a batch and ``flush`` once at its
    end; rows may leave at any time between.

    Attributes:
        refused: receives the reason if elements of a block of columns are written one by one.
    """

    refused: Callable[[str], None] = staticmethod(count_refused)

    @abstractmethod
    def add(self, windowed_value: WindowedValue) -> None:
        """Write an element."""

    def write(self, batch: Batch) -> None:
        """Write a batch at once as far as the sink supports it, else element by element."""
        for element in batch.elements():
            self.add(element)

    @abstractmethod
    def flush(self) -> None:
        """Turn buffered elements into rows."""
