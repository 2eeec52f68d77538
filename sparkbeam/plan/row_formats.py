"""Formats of the rows between stages.

A format is the agreement between the writer of a port and the reader behind the exchange: the
content of ``key``, ``ord`` and ``value`` of a row. There are six, each with its writer and reader
in one module of the worker. Variants of a format are parameters, which the plan chooses.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class RowFormat:
    """Format of the rows of a port; named for rows, as it is the same whatever their exchange.

    Attributes:
        by_time, keys_only, multimap, packed, stored: parameters, which only some formats have.
    """

    by_time = keys_only = multimap = packed = stored = False

    @property
    def name(self) -> str:
        """Name in the fingerprint of a checkpoint."""
        return type(self).__name__

    @property
    def arrival(self) -> str:
        """Description of the rows behind an exchange by key, or in a side input, for people."""
        return ""

    @property
    def reading(self) -> str:
        """Description of the way in which groups are read from the rows, for people."""
        return ", many at once" if self.packed else ", in one pass over the rows"

    @property
    def why_elements(self) -> str | None:
        """Reason for which its rows hold no columns; None if they may."""
        return None

    @property
    def takes_assigned(self) -> bool:
        """True if its writer takes blocks whose elements have assigned windows."""
        return False


@dataclass(frozen=True)
class ElementRows(RowFormat):
    """Many elements one after the other, in no order by key."""

    name = "chunks"
    takes_assigned = True


@dataclass(frozen=True)
class GroupRows(RowFormat):
    """Runs of values by key and window, on the way to a GroupByKey.

    Attributes:
        packed: a row has many keys; pairs in columns stay columns.
    """

    packed: bool = False

    @property
    def arrival(self) -> str:
        return ", many keys per row" if self.packed else ", sorted"

    @property
    def why_elements(self) -> str | None:
        return None if self.packed else "its groups are made of elements"

    @property
    def takes_assigned(self) -> bool:
        return self.packed


@dataclass(frozen=True)
class AggregateRows(RowFormat):
    """Accumulators by key and span of time, ordered by its start.

    Attributes:
        sessions: the spans are sessions, merged within the scope of a writer; else windows, or
            slices of windows.
        packed: rows of many keys travel as one.
    """

    sessions: bool = False
    packed: bool = True

    @property
    def arrival(self) -> str:
        return ", many keys per row" if self.packed else ", sorted by session start"

    @property
    def why_elements(self) -> str:
        return f"its {'sessions' if self.sessions else 'accumulators'} are merged one by one"


@dataclass(frozen=True)
class KeyedRows(RowFormat):
    """Windowed elements by key, in the order in which they were produced.

    Attributes:
        by_time: a row has one element, and those of a key are ordered by timestamp.
        stored: on the way to the state of a grouping: each value has its length before it, and
            accumulators of many keys may share a row.
    """

    by_time: bool = False
    stored: bool = False

    @property
    def name(self) -> str:
        if self.stored:
            return "stored"
        return "time_sorted" if self.by_time else "keyed"

    @property
    def arrival(self) -> str:
        if self.stored:
            return ", into state"
        return ", sorted by event time" if self.by_time else ", sorted"

    @property
    def reading(self) -> str:
        return "" if self.stored else ", key by key"

    @property
    def why_elements(self) -> str:
        if self.stored:
            return "state holds elements"
        if self.by_time:
            return "its elements are sorted by timestamp"
        return "the elements of a key are read one by one"


@dataclass(frozen=True)
class SideInputRows(RowFormat):
    """Runs of values by window, on the way to a side input."""

    multimap: bool = False

    @property
    def name(self) -> str:
        return "side_multimap" if self.multimap else "side_iterable"

    @property
    def arrival(self) -> str:
        return "looked up by window and key" if self.multimap else "read whole, window by window"

    why_elements = "side inputs hold elements"


@dataclass(frozen=True)
class JoinRows(RowFormat):
    """One value by key and window, on a side of a join by Spark.

    Attributes:
        keys_only: a join puts out nothing of the side: there are no values, and hardly any key
            twice.
    """

    keys_only: bool = False
