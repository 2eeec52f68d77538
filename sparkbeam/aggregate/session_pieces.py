"""Merge of runs of sessions, piece by piece.

A piece is as long as the processor's caches hold at once. The parts of runs in a span of time merge
separately, and a session that reaches beyond the span goes on to the next one. Columns as long as
all runs, whose memory would have to come from the system each time, are therefore never made. A
span in which only one run has sessions stays unchanged.
"""

from collections.abc import Sequence
from itertools import chain

from sparkbeam.aggregate.aggregates import Aggregates
from sparkbeam.aggregate.columnar_sessions import SessionColumns

_PIECE = 1 << 16


def merged_in_pieces(
    make: SessionColumns, runs: Sequence[Sequence[Aggregates]]
) -> list[Aggregates]:
    """Return the sessions of several runs, in pieces of which each follows the one before.

    Args:
        runs: the pieces of each.
    """
    rests = [_Rest(pieces) for pieces in runs]
    found: list[Aggregates] = []
    carried: list[Aggregates] = []
    for cut in [*_cuts(runs), None]:
        spans = [carried, *(rest.until(cut) for rest in rests)]
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


_Cut = tuple[int, int]
"""A key and a start, before which sessions are on one side."""


def _cuts(runs: Sequence[Sequence[Aggregates]]) -> list[_Cut]:
    """Return the ends of spans, in order; a span has about one piece of each run."""
    every = sorted(
        (int(piece.keys[at]), int(piece.starts[at]))
        for pieces in runs
        for piece in pieces
        for at in range(0, len(piece), _PIECE)
    )
    return every[len(runs) :: len(runs)]


class _Rest:
    """Rest of a run."""

    def __init__(self, pieces: Sequence[Aggregates]) -> None:
        self._pieces = list(reversed(pieces))

    def until(self, cut: _Cut | None) -> list[Aggregates]:
        """Take all sessions before a cut; all sessions if there is no cut."""
        found = []
        while self._pieces:
            piece = self._pieces.pop()
            count = len(piece)
            if cut is not None:
                key, start = cut
                count = piece.place_of(key, piece.starts, start)
            if count:
                found.append(piece.part(slice(count)))
            if count < len(piece):
                self._pieces.append(piece.part(slice(count, None)))
                break
        return found
