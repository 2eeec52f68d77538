"""All events of a range, in order."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from beam_nexmark import events
from beam_nexmark.configuration import Configuration
from beam_nexmark.generator.event_columns import auctions, bids, persons
from beam_nexmark.generator.event_numbers import EventNumbers

_GENERATE = (persons, auctions, bids)
_STRUCTS = ("person", "auction", "bid")


@dataclass(frozen=True)
class EventBatch:
    """Events of all kinds.

    Attributes:
        numbers: their numbers, in order.
        columns: the persons, the auctions and the bids, each in that order. Columns that were not
            requested may be missing for Arrow.
    """

    numbers: EventNumbers
    columns: tuple[pa.RecordBatch, ...]

    @classmethod
    def generate(
        cls,
        configuration: Configuration,
        numbers: EventNumbers,
        wanted: Sequence[Iterable[str] | None] = (None, None, None),
    ) -> "EventBatch":
        """Generate events.

        Args:
            numbers: the numbers of the events, in order.
            wanted: the required columns of each kind; None for all.
        """
        made = zip(_GENERATE, wanted, strict=True)
        return cls(numbers, tuple(make(configuration, numbers, of_kind) for make, of_kind in made))

    def to_arrow(self) -> pa.RecordBatch:
        """Return a row per event: structs ``person``, ``auction`` and ``bid``, two of them null."""
        kinds = self.numbers.kinds
        arrays = []
        for kind, columns in enumerate(self.columns):
            of_kind = kinds == kind
            rows = pa.array(np.cumsum(of_kind) - 1, mask=~of_kind)
            arrays.append(columns.to_struct_array().take(rows))
        return pa.RecordBatch.from_arrays(arrays, names=list(_STRUCTS))

    def to_union(self) -> pa.UnionArray:
        """Return a dense union of persons, auctions and bids."""
        kinds = self.numbers.kinds
        places = np.empty(len(kinds), np.int32)
        for rows in self.numbers.rows:
            places[rows] = np.arange(len(rows), dtype=np.int32)
        structs = [columns.to_struct_array() for columns in self.columns]
        return pa.UnionArray.from_dense(pa.array(kinds), pa.array(places), structs)

    def to_python(self) -> list[events.Person | events.Auction | events.Bid]:
        """Return the events as NamedTuples."""
        sources = [
            map(kind._make, zip(*map(_values, columns.columns), strict=True))
            for kind, columns in zip(events.KINDS, self.columns, strict=True)
        ]
        return [next(sources[kind]) for kind in self.numbers.kinds.tolist()]


def _values(column: pa.Array) -> list[Any] | Iterator[Any]:
    return column.to_numpy().tolist() if pa.types.is_integer(column.type) else column.to_pylist()
