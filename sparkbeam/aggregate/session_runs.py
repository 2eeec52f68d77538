"""Columns of sessions in runs, of which long ones are merged seldom."""

from collections.abc import Iterator

from sparkbeam.aggregate.aggregates import Aggregates
from sparkbeam.aggregate.columnar_sessions import SessionColumns
from sparkbeam.aggregate.session_pieces import merged_in_pieces

_PIECE = 1024


class _Run:
    """Columns of the same keys, in pieces of which each follows the one before.

    Args:
        pieces: of which there is one at least.
    """

    def __init__(self, make: SessionColumns, pieces: list[Aggregates]) -> None:
        self._make = make
        self.pieces = pieces
        self._length = sum(map(len, pieces))

    def __len__(self) -> int:
        return self._length

    def extend(self, columns: Aggregates) -> bool:
        """Append further sessions.

        False if they reach back too far, and nothing has changed: they may reach fewer of the
        existing sessions than they are themselves.
        """
        last = self.pieces[-1]
        # The sessions that are before all of the new ones and touch none of them.
        kept = last.place_of(columns.keys[0], last.ends, columns.starts[0])
        if kept == 0 or len(last) - kept > len(columns):
            return False
        if kept < len(last):
            reached = last.part(slice(kept, None))
            count = columns.place_of(reached.keys[-1], columns.starts, reached.ends[-1], "right")
            head = self._make.merge(reached, columns.part(slice(count)))
            columns = self._make.joined([head, columns.part(slice(count, None))])
            self.pieces[-1] = last.part(slice(kept))
        self._length += kept - len(last) + len(columns)
        self.pieces.append(columns)
        while len(self.pieces) > 1 and len(self.pieces[-2]) <= len(self.pieces[-1]) < _PIECE:
            self.pieces[-2:] = [self._make.joined(self.pieces[-2:])]
        return True


class Runs:
    """Columns of the same keys, each more than twice as long as the next.

    So an element is in as many merges as the number of sessions doubles, whatever comes at once;
    and in none if elements come in their order.
    """

    def __init__(self, make: SessionColumns) -> None:
        self._make = make
        self._runs: list[_Run] = []

    def __len__(self) -> int:
        return sum(map(len, self._runs))

    def __iter__(self) -> Iterator[Aggregates]:
        for run in self._runs:
            yield from run.pieces

    def add(self, columns: Aggregates) -> None:
        """Take in further sessions."""
        runs = self._runs
        if not runs or not runs[-1].extend(columns):
            runs.append(_Run(self._make, [columns]))
        while len(runs) > 1 and len(runs[-2]) <= 2 * len(runs[-1]):
            self._merge(2)

    def aggregates(self) -> Aggregates | None:
        """Return all sessions, by key and start; None if there are none."""
        if len(self._runs) > 1:
            self._merge(len(self._runs))
        if not self._runs:
            return None
        (run,) = self._runs
        run.pieces = [self._make.joined(run.pieces)]
        return run.pieces[0]

    def _merge(self, count: int) -> None:
        """Merge the last runs into one."""
        some = self._runs[-count:]
        pieces = merged_in_pieces(self._make, [run.pieces for run in some])
        self._runs[-count:] = [_Run(self._make, pieces)]
