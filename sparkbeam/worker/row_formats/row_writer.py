"""Writers of rows."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from apache_beam.coders import coders
from apache_beam.transforms.core import Windowing
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.plan.model import Port
from sparkbeam.wire.rows import RowWriter
from sparkbeam.worker.blocks import Block
from sparkbeam.worker.keyed_aggregates import ExtraElements, KeyedAggregates
from sparkbeam.worker.refusals import count_refused

Batch = Block | KeyedAggregates | ExtraElements
"""Many elements, or partial aggregates of them."""


@dataclass(frozen=True)
class WriterParameters:
    """Parameters of a writer."""

    port: Port
    rows: RowWriter
    coder: coders.WindowedValueCoder
    windowing: Windowing
    partition: int = 0


class Sink(ABC):
    """Writer of the elements of one port as rows.

    The bundle calls ``add`` for a single element, ``write`` for a batch and ``flush`` once at its
    end; rows may leave at any time between.

    Attributes:
        refused: receives the reason if elements of a block of columns are written one by one.
    """

    refused: Callable[[str], None] = staticmethod(count_refused)

    def __init__(self, output: WriterParameters) -> None:
        self._tag = output.port.tag
        self._rows = output.rows

    @abstractmethod
    def add(self, windowed_value: WindowedValue) -> None:
        """Write an element."""

    def write(self, batch: Batch) -> None:
        """Write a batch at once as far as the sink supports it, else element by element."""
        match batch:
            case Block():
                self._write_block(batch)
            case KeyedAggregates():
                self._write_aggregates(batch)
            case _:
                self._write_elements(batch)

    def _write_block(self, block: Block) -> None:
        self._write_elements(block)

    def _write_aggregates(self, found: KeyedAggregates) -> None:
        self._write_elements(found)

    def _write_elements(self, batch: Batch) -> None:
        for element in batch.elements():
            self.add(element)

    @abstractmethod
    def flush(self) -> None:
        """Turn buffered elements into rows."""
