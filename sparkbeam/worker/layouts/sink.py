"""What writes a layout."""

from abc import ABC, abstractmethod

from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.worker.blocks import Block


class Sink(ABC):
    """Turns the elements of one port into rows.

    The bundle calls ``write`` for each element and ``flush`` once at its end;
    rows may leave at any time between.
    """

    @abstractmethod
    def write(self, windowed_value: WindowedValue) -> None:
        """Writes an element."""

    def write_block(self, block: Block) -> None:
        """Writes many elements."""
        for element in block.elements():
            self.write(element)

    def write_count(self, template: WindowedValue, number: int) -> None:  # noqa: B027
        """Tells that accumulators stand for more elements than there are of them.

        Nobody asks for that where no element can be late.

        Args:
            template: a windowed value with their window.
            number: how many more.
        """

    @abstractmethod
    def flush(self) -> None:
        """Turns what is held back into rows."""
