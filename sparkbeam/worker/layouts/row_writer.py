"""What writes a layout."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from apache_beam.transforms.window import IntervalWindow
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.aggregate.aggregates import Aggregates
from sparkbeam.aggregate.aggregator import Session
from sparkbeam.worker.blocks import Block
from sparkbeam.worker.partials import Partials
from sparkbeam.worker.refusals import count_refused
from sparkbeam.worker.value_columns import Column

KeySessions = tuple[Any, list[Session]]
"""A key with sessions of its own, in order of their start."""


class Sink(ABC):
    """Turns the elements of one port into rows.

    The bundle calls ``write`` for each element and ``flush`` once at its end;
    rows may leave at any time between.

    Attributes:
        refused: is told why elements of a block of columns are written one by one.
    """

    refused: Callable[[str], None] = staticmethod(count_refused)

    @abstractmethod
    def write(self, windowed_value: WindowedValue) -> None:
        """Writes an element."""

    def write_block(self, block: Block) -> None:
        """Writes many elements."""
        for element in block.elements():
            self.write(element)

    def write_sessions(self, found: list[KeySessions]) -> None:
        """Writes the accumulators of sessions."""
        for key, sessions in found:
            for start, end, stamp, accumulator in sessions:
                window = IntervalWindow(Timestamp(micros=start), Timestamp(micros=end))
                time = Timestamp(micros=stamp)
                self.write(WindowedValue((key, accumulator), time, (window,)))

    def write_session_columns(self, keys: list[Any] | Column, found: Aggregates) -> None:
        """Writes sessions whose totals are numbers of a vectorised form.

        Args:
            keys: by their numbers.
            found: the sessions.
        """
        raise NotImplementedError

    def write_partials(self, found: Partials) -> None:
        """Writes what keys and slices of windows have come to.

        Args:
            found: it.
        """
        raise NotImplementedError

    def write_window(self, template: WindowedValue, found: Partials) -> None:
        """Writes what keys have come to in one window.

        Args:
            template: a windowed value with that window.
            found: it.
        """
        raise NotImplementedError

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
