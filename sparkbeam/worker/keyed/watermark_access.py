"""The watermark as a stateful DoFn of sparkbeam's own sees it, and its hold on what comes after."""

from apache_beam.transforms import userstate

from sparkbeam.wire.timestamps import MAX_MICROS, MIN_MICROS
from sparkbeam.worker.grouping.moment import Moment
from sparkbeam.worker.keyed.state_cells import Cell


class EventTime(userstate.RuntimeState):
    """The state of an ``EventTimeSpec``. All times are in microseconds.

    Args:
        cell: has the hold.
        moment: the times of the stage; None in batch.
    """

    def __init__(self, cell: Cell, moment: Moment | None) -> None:
        self._cell = cell
        self._moment = moment

    @property
    def arrived(self) -> int:
        """Elements before this time are late."""
        return MIN_MICROS if self._moment is None else self._moment.input_watermark

    @property
    def final(self) -> int:
        """In a timer: no element before this time is going to come, but those that are late."""
        return MAX_MICROS if self._moment is None else self._moment.input_watermark

    def hold(self, micros: int | None) -> None:
        """Keeps the watermark behind this stage from passing a time; None lets it go."""
        self._cell.hold(micros)

    def commit(self) -> None:
        """The hold is in the record."""
