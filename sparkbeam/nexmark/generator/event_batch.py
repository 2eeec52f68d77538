"""All events of a range, in their order."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sparkbeam.nexmark import events
from sparkbeam.nexmark.configuration import Configuration
from sparkbeam.nexmark.generator.event_columns import auctions, bids, persons
from sparkbeam.nexmark.generator.event_numbers import EventNumbers

_GENERATE = (persons, auctions, bids)
_STRUCTS = ("person", "auction", "bid")


@dataclass(frozen=True)
class EventBatch:
    """Events of all kinds.

    Attributes:
        numbers: which ones, in their order.
        columns: the persons, the auctions and the bids, each in that order. For Arrow they may be
            without columns that were not wanted.
    """

    numbers: EventNumbers
    columns: tuple[pa.RecordBatch, ...]

    @classmethod
    def of(
        cls,
        configuration: Configuration,
        numbers: EventNumbers,
        wanted: Sequence[Iterable[str] | None] = (None, None, None),
    ) -> "EventBatch":
        """Generates the events.

        Args:
            configuration: of the generator.
            numbers: which ones, in their order.
            wanted: the columns of each kind that are to be there at least; None for all.
        """
        made = zip(_GENERATE, wanted, strict=True)
        return cls(numbers, tuple(make(configuration, numbers, of_kind) for make, of_kind in made))

    def to_arrow(self) -> pa.RecordBatch:
        """One row an event: the structs ``person``, ``auction`` and ``bid``, all but one null."""
        kinds = self.numbers.kinds
        arrays = []
        for kind, columns in enumerate(self.columns):
            of_kind = kinds == kind
            rows = pa.array(np.cumsum(of_kind) - 1, mask=~of_kind)
            arrays.append(columns.to_struct_array().take(rows))
        return pa.RecordBatch.from_arrays(arrays, names=list(_STRUCTS))

    def to_union(self) -> pa.UnionArray:
        """A dense union of persons, auctions and bids."""
        kinds = self.numbers.kinds
        places = np.empty(len(kinds), np.int32)
        for rows in self.numbers.rows:
            places[rows] = np.arange(len(rows), dtype=np.int32)
        structs = [columns.to_struct_array() for columns in self.columns]
        return pa.UnionArray.from_dense(pa.array(kinds), pa.array(places), structs)

    def to_python(self) -> list[events.Person | events.Auction | events.Bid]:
        """The events as NamedTuples."""
        sources = [
            map(kind._make, zip(*map(_values, columns.columns), strict=True))
            for kind, columns in zip(events.KINDS, self.columns, strict=True)
        ]
        return [next(sources[kind]) for kind in self.numbers.kinds.tolist()]


def _values(column: pa.Array) -> list[Any] | Iterator[Any]:
    return column.to_numpy().tolist() if pa.types.is_integer(column.type) else column.to_pylist()
