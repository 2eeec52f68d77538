"""The watermark as seen by sparkbeam's own stateful DoFns, and their hold on later stages."""

from apache_beam.transforms import userstate

from sparkbeam.wire.timestamps import MAX_MICROS, MIN_MICROS
from sparkbeam.worker.grouping.shard_clock import ShardClock
from sparkbeam.worker.keyed.state_cells import Cell


class EventTime(userstate.RuntimeState):
    """The state of an ``EventTimeSpec``. All times are in microseconds.

    Args:
        moment: the times of the stage; None in batch.
    """

    def __init__(self, cell: Cell, moment: ShardClock | None) -> None:
        self._cell = cell
        self._moment = moment

    @property
    def arrived(self) -> int:
        """Time before which elements are late."""
        return MIN_MICROS if self._moment is None else self._moment.input_watermark

    @property
    def final(self) -> int:
        """Time before which only late elements can come; for use in a timer."""
        return MAX_MICROS if self._moment is None else self._moment.input_watermark

    def hold(self, micros: int | None) -> None:
        """Keep the watermark behind this stage from passing a time; None lets it go."""
        self._cell.hold(micros)

    def commit(self) -> None:
        """Do nothing, as the hold is in the record."""
