"""Layout of the boxes and lines of a layered drawing.

The method is that of Sugiyama, Tagawa and Toda ("Methods for visual understanding of hierarchical
system structures", 1981): boxes are assigned to rows, rows are ordered to reduce crossings, then
coordinates are assigned. A line that passes a row reserves space there, so that it never runs under
a box. As in Coffman and Graham's layering, a row holds a bounded number of boxes, which bounds the
width of the drawing.
"""

import itertools
from bisect import bisect_right, insort
from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

BOXES_PER_ROW = 4
_SWEEPS = 13
_GAP = 24.0
_ROW_GAP = 44.0
"""Pixels between two boxes of a row, and between two rows."""

_LANE_WIDTH = 4.0
_LANE_GAP = 10.0
_LANE_WEIGHT = 8.0


@dataclass(frozen=True)
class LayoutBox:
    """A box to place.

    Attributes:
        id: its name.
        width: in pixels.
        height: in pixels.
    """

    id: str
    width: float
    height: float


@dataclass(frozen=True)
class LayoutLine:
    """A line from the bottom of one box to the top of a later one.

    Attributes:
        source: the box where it starts.
        target: the box where it ends.
        style: lines of the same style share their way from a box or to a box.
        entry: where it meets the target, in pixels from the middle of its top.
    """

    source: str
    target: str
    style: Hashable
    entry: float = 0.0


@dataclass(frozen=True)
class Arrangement:
    """A finished layout.

    Attributes:
        corners: the upper left corner of each box.
        ways: the points of each line, from top to bottom. It runs in the gap between two rows from
            the second to the third point, from the fourth to the fifth and so on; elsewhere it is
            vertical.
        width: of the drawing, in pixels.
        height: of the drawing, in pixels.
    """

    corners: Mapping[str, tuple[float, float]]
    ways: Mapping[LayoutLine, Sequence[tuple[float, float]]]
    width: float
    height: float


def arrange(boxes: Sequence[LayoutBox], lines: Sequence[LayoutLine]) -> Arrangement:
    """Place boxes in rows, from top to bottom.

    Args:
        boxes: in topological order.
        lines: the lines between them.
    """
    return _Arranger(boxes, lines).arrangement()


@dataclass(frozen=True)
class _Lane:
    """The passage of a row by the lines of one style that leave or reach one box."""

    box: str
    leaving: bool
    style: Hashable
    row: int


# A box, by its id, or a lane takes a place in a row.
_Place = str | _Lane


class _Arranger:
    def __init__(self, boxes: Sequence[LayoutBox], lines: Sequence[LayoutLine]) -> None:
        self._boxes = {box.id: box for box in boxes}
        self._lines = list(lines)
        self._row = _rows(list(self._boxes), self._lines)
        self._rows: list[list[_Place]] = [[] for _ in set(self._row.values())]
        self._degree = Counter(
            (box, line.style) for line in self._lines for box in (line.source, line.target)
        )
        self._above: dict[_Place, list[_Place]] = defaultdict(list)
        self._below: dict[_Place, list[_Place]] = defaultdict(list)

    def arrangement(self) -> Arrangement:
        for id, row in self._row.items():
            self._rows[row].append(id)
        stops = {line: self._stops(line) for line in self._lines}
        self._order_rows()
        x = self._columns()
        tops, height = self._tops()
        width = max((x[p] + self._width(p) / 2 for row in self._rows for p in row), default=0.0)
        corners = {
            id: (x[id] - box.width / 2, tops[self._row[id]]) for id, box in self._boxes.items()
        }
        ways = {line: self._way(line, stops[line], x, tops) for line in self._lines}
        return Arrangement(corners, ways, width, height)

    def _stops(self, line: LayoutLine) -> list[_Place]:
        """Return the places that a line connects, creating those that are missing."""
        first, last = self._row[line.source], self._row[line.target]
        leaving = self._degree[line.source, line.style] >= self._degree[line.target, line.style]
        box = line.source if leaving else line.target
        stops: list[_Place] = [line.source]
        for row in range(first + 1, last):
            lane = _Lane(box, leaving, line.style, row)
            if lane not in self._rows[row]:
                self._rows[row].append(lane)
            stops.append(lane)
        stops.append(line.target)
        for upper, lower in itertools.pairwise(stops):
            if lower not in self._below[upper]:
                self._below[upper].append(lower)
                self._above[lower].append(upper)
        return stops

    # The order in each row.

    def _order_rows(self) -> None:
        best = [list(row) for row in self._rows]
        fewest = self._crossings()
        for sweep in range(_SWEEPS):
            if fewest == 0:
                break
            self._sweep(downwards=sweep % 2 == 0)
            crossings = self._crossings()
            if crossings < fewest:
                fewest, best = crossings, [list(row) for row in self._rows]
        self._rows = best

    def _sweep(self, *, downwards: bool) -> None:
        """Sort each row by the mean position of its neighbours."""
        rows = self._rows if downwards else self._rows[::-1]
        neighbours = self._above if downwards else self._below
        for fixed, free in itertools.pairwise(rows):
            position = {place: index for index, place in enumerate(fixed)}
            mean = {}
            for index, place in enumerate(free):
                found = [position[n] for n in neighbours[place]]
                mean[place] = sum(found) / len(found) if found else float(index)
            free.sort(key=mean.__getitem__)

    def _crossings(self) -> int:
        total = 0
        for upper, lower in itertools.pairwise(self._rows):
            position = {place: index for index, place in enumerate(lower)}
            seen: list[int] = []
            for place in upper:
                ends = sorted(position[n] for n in self._below[place])
                total += sum(len(seen) - bisect_right(seen, end) for end in ends)
                for end in ends:
                    insort(seen, end)
        return total

    # Coordinates.

    def _columns(self) -> dict[_Place, float]:
        """Return the horizontal middle of every place."""
        widest = max((self._offsets(row)[-1] + self._edges(row) for row in self._rows), default=0.0)
        x: dict[_Place, float] = {}
        for row in self._rows:
            start = (widest - self._offsets(row)[-1] - self._edges(row) + self._width(row[0])) / 2
            x.update((p, start + o) for p, o in zip(row, self._offsets(row), strict=True))
        for sweep in range(_SWEEPS):
            downwards = sweep % 2 == 0
            for row in self._rows if downwards else self._rows[::-1]:
                self._straighten(row, x, widest, downwards=downwards)
        left = min((x[row[0]] - self._width(row[0]) / 2 for row in self._rows), default=0.0)
        return {place: middle - left for place, middle in x.items()}

    def _straighten(
        self, row: list[_Place], x: dict[_Place, float], widest: float, *, downwards: bool
    ) -> None:
        """Move the places of a row towards their neighbours, keeping their order."""
        offsets = self._offsets(row)
        wanted, weights = [], []
        for place, offset in zip(row, offsets, strict=True):
            above, below = self._above[place], self._below[place]
            around = (above or below) if downwards else (below or above)
            lanes = [n for n in around if not isinstance(n, str)]
            straight = bool(lanes) and not isinstance(place, str)
            goals = [x[n] for n in (lanes if straight else around)] or [x[place]]
            wanted.append(sum(goals) / len(goals) - offset)
            weights.append(_LANE_WEIGHT if straight else 1.0)
        # Within the widest row, so that the drawing does not creep sideways.
        low = self._width(row[0]) / 2
        high = max(low, widest - self._width(row[-1]) / 2 - offsets[-1])
        for place, start, offset in zip(row, _monotone(wanted, weights), offsets, strict=True):
            x[place] = min(max(start, low), high) + offset

    def _offsets(self, row: list[_Place]) -> list[float]:
        """Return the minimum distance of each place's middle from that of the first."""
        offsets = [0.0]
        for left, right in itertools.pairwise(row):
            lanes = not isinstance(left, str) and not isinstance(right, str)
            gap = _LANE_GAP if lanes else _GAP
            offsets.append(offsets[-1] + (self._width(left) + self._width(right)) / 2 + gap)
        return offsets

    def _edges(self, row: list[_Place]) -> float:
        """Return the outer halves of the first and the last place."""
        return (self._width(row[0]) + self._width(row[-1])) / 2

    def _tops(self) -> tuple[list[float], float]:
        tops, y = [], 0.0
        for row in range(len(self._rows)):
            tops.append(y)
            y += self._row_height(row) + _ROW_GAP
        return tops, max(0.0, y - _ROW_GAP)

    def _way(
        self, line: LayoutLine, stops: list[_Place], x: dict[_Place, float], tops: list[float]
    ) -> list[tuple[float, float]]:
        first, last = self._row[line.source], self._row[line.target]
        bottom = tops[first] + self._boxes[line.source].height
        points = [(x[line.source], bottom), (x[line.source], tops[first] + self._row_height(first))]
        for row, lane in enumerate(stops[1:-1], start=first + 1):
            points += [(x[lane], tops[row]), (x[lane], tops[row] + self._row_height(row))]
        points.append((x[line.target] + line.entry, tops[last]))
        return points

    def _row_height(self, row: int) -> float:
        return max(self._boxes[p].height for p in self._rows[row] if isinstance(p, str))

    def _width(self, place: _Place) -> float:
        return self._boxes[place].width if isinstance(place, str) else _LANE_WIDTH


def _rows(ids: list[str], lines: list[LayoutLine]) -> dict[str, int]:
    """Return the row of each box: below its sources, close to its targets, no row too full."""
    sources, targets = defaultdict(list), defaultdict(list)
    for line in lines:
        sources[line.target].append(line.source)
        targets[line.source].append(line.target)
    row: dict[str, int] = {}
    filled: dict[int, int] = defaultdict(int)
    for id in ids:
        row[id] = max((row[source] + 1 for source in sources[id]), default=0)
        while filled[row[id]] >= BOXES_PER_ROW:
            row[id] += 1
        filled[row[id]] += 1
    for id in reversed(ids):
        # A box that few lead to and many leave shortens lines by moving down.
        if len(set(sources[id])) < len(set(targets[id])):
            for lower in range(min(row[target] for target in targets[id]) - 1, row[id], -1):
                if filled[lower] < BOXES_PER_ROW:
                    filled[row[id]] -= 1
                    row[id] = lower
                    filled[lower] += 1
                    break
    used = {old: new for new, old in enumerate(sorted(set(row.values())))}
    return {id: used[row[id]] for id in ids}


def _monotone(values: list[float], weights: list[float]) -> list[float]:
    """Return the non-decreasing sequence closest to ``values`` in least squares.

    Pool adjacent violators (Ayer et al., 1955).
    """
    pools: list[tuple[float, float, int]] = []
    for value, weight in zip(values, weights, strict=True):
        pools.append((value, weight, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            second, first = pools.pop(), pools.pop()
            total = first[1] + second[1]
            mean = (first[0] * first[1] + second[0] * second[1]) / total
            pools.append((mean, total, first[2] + second[2]))
    return [value for value, _, size in pools for _ in range(size)]
