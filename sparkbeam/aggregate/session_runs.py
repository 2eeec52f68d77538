"""Columns of sessions in runs, of which long ones are merged seldom, piece by piece.

A piece is as long as the processor's caches hold at once. The parts of runs in a span of time merge
separately, and a session that reaches beyond the span goes on to the next one. Columns as long as
all runs, whose memory would have to come from the system each time, are therefore never made. A
span in which only one run has sessions stays unchanged.
"""

from collections.abc import Iterator, Sequence
from itertools import chain

from sparkbeam.aggregate.aggregates import Aggregates
from sparkbeam.aggregate.columnar_sessions import SessionColumns

_PIECE = 1 << 16
_SMALL_PIECE = 1024
"""Pieces that come one after the other are joined up to this length."""

_Cut = tuple[int, int]
"""A key and a start, before which sessions are on one side."""


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
        while len(self.pieces) > 1 and len(self.pieces[-2]) <= len(self.pieces[-1]) < _SMALL_PIECE:
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


def merged_in_pieces(
    make: SessionColumns, runs: Sequence[Sequence[Aggregates]]
) -> list[Aggregates]:
    """Return the sessions of several runs, in pieces of which each follows the one before.

    Args:
        runs: the pieces of each.
    """
    rests = [list(reversed(pieces)) for pieces in runs]
    found: list[Aggregates] = []
    carried: list[Aggregates] = []
    for cut in [*_cuts(runs), None]:
        spans = [carried, *(_take_until(rest, cut) for rest in rests)]
        parts = list(chain.from_iterable(spans))
        if not parts:
            continue
        is_of_one = sum(map(bool, spans)) == 1
        piece = make.joined(parts) if is_of_one else make.merge(*parts)
        carried = []
        if cut is not None and piece.keys[-1] == cut[0] and piece.ends[-1] > cut[1]:
            carried = [piece.part(slice(-1, None))]
            piece = piece.part(slice(-1))
        if found and len(found[-1]) + len(piece) <= _PIECE:
            piece = make.joined([found.pop(), piece])
        if len(piece):
            found.append(piece)
    return found


def _cuts(runs: Sequence[Sequence[Aggregates]]) -> list[_Cut]:
    """Return the ends of spans, in order; a span has about one piece of each run."""
    every = sorted(
        (int(piece.keys[at]), int(piece.starts[at]))
        for pieces in runs
        for piece in pieces
        for at in range(0, len(piece), _PIECE)
    )
    return every[len(runs) :: len(runs)]


def _take_until(rest: list[Aggregates], cut: _Cut | None) -> list[Aggregates]:
    """Take all sessions before a cut from the end of a list of pieces; all without a cut."""
    found = []
    while rest:
        piece = rest.pop()
        count = len(piece)
        if cut is not None:
            key, start = cut
            count = piece.place_of(key, piece.starts, start)
        if count:
            found.append(piece.part(slice(count)))
        if count < len(piece):
            rest.append(piece.part(slice(count, None)))
            break
    return found
