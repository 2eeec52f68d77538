"""Ends of each layout: the writer and the reader of its rows."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import cast

from apache_beam.coders import coders
from apache_beam.transforms.core import Windowing

from sparkbeam.plan.model import Layout
from sparkbeam.wire.row_packs import PackedRows
from sparkbeam.wire.rows import FiringWriter, KeyedWriter, Row, RowWriter
from sparkbeam.worker.blocks import Block
from sparkbeam.worker.layouts.cells import stripped_coder
from sparkbeam.worker.layouts.chunks import ChunkSink, chunks
from sparkbeam.worker.layouts.groups import GroupSink
from sparkbeam.worker.layouts.joined import JoinKeySink, JoinSideSink
from sparkbeam.worker.layouts.keyed_elements import (
    KeyedSink,
    KeyedSource,
    StoredSink,
    TimeSortedSink,
)
from sparkbeam.worker.layouts.packed_groups import PackedGroupSink
from sparkbeam.worker.layouts.row_writer import Sink
from sparkbeam.worker.layouts.session_rows import SessionSink
from sparkbeam.worker.layouts.side_rows import SideSink
from sparkbeam.worker.layouts.telling import TellingSink
from sparkbeam.worker.layouts.total_rows import TotalsSink


@dataclass(frozen=True)
class Port:
    """Parameters of a writer.

    Attributes:
        tag: the tag of the port.
        rows: takes the rows.
        coder: the coder of the elements.
        windowing: the windowing of the elements.
        partition: the partition of the task.
        spreads: some reader has its rows spread over all partitions.
    """

    tag: int
    rows: RowWriter
    coder: coders.WindowedValueCoder
    windowing: Windowing
    partition: int
    spreads: bool = False


Reader = Callable[[Iterator[Row], coders.WindowedValueCoder], Iterator[Block]]
"""Reader of rows that were written with a coder."""


@dataclass(frozen=True)
class Ends:
    """Ends of a layout.

    Attributes:
        sink: makes the writer.
        read: reads all elements; None if they are read key by key, or by what groups or joins
            them.
    """

    sink: Callable[[Port], Sink]
    read: Reader | None = None


ENDS = {
    Layout.CHUNKS: Ends(
        lambda port: ChunkSink(
            port.tag,
            port.rows,
            port.coder,
            port.partition,
            spreads=port.spreads,
            in_micros=port.spreads and port.windowing.is_default(),
        ),
        chunks,
    ),
    Layout.GROUPS: Ends(lambda port: GroupSink(port.tag, port.rows, port.coder, port.windowing)),
    Layout.PACKED_GROUPS: Ends(
        lambda port: PackedGroupSink(port.tag, port.rows, port.coder, port.windowing)
    ),
    Layout.TOTALS: Ends(lambda port: TotalsSink(port.tag, port.rows, port.coder, port.windowing)),
    Layout.SESSIONS: Ends(
        lambda port: SessionSink(port.tag, port.rows, port.coder, port.windowing)
    ),
    Layout.SESSION_TOTALS: Ends(
        lambda port: SessionSink(port.tag, PackedRows(port.rows), port.coder, port.windowing)
    ),
    Layout.TRIGGERED: Ends(
        lambda port: KeyedSink(port.tag, port.rows, port.coder, stripped_coder(port.coder))
    ),
    Layout.STORED: Ends(
        # In streaming all rows go to such a writer.
        lambda port: StoredSink(port.tag, cast("KeyedWriter", port.rows), port.coder)
    ),
    Layout.KEYED: Ends(
        lambda port: KeyedSink(port.tag, port.rows, port.coder, stripped_coder(port.coder)),
        lambda rows, coder: KeyedSource(coder).blocks(rows),
    ),
    Layout.TIME_SORTED: Ends(
        lambda port: TimeSortedSink(port.tag, port.rows, port.coder),
        lambda rows, coder: KeyedSource(coder).blocks(rows),
    ),
    Layout.JOIN_SIDE: Ends(
        lambda port: JoinSideSink(port.tag, port.rows, port.coder, port.windowing)
    ),
    Layout.JOIN_KEYS: Ends(
        lambda port: JoinKeySink(port.tag, port.rows, port.coder, port.windowing)
    ),
    Layout.SIDE_ITERABLE: Ends(
        lambda port: SideSink(port.tag, port.rows, port.coder, multimap=False)
    ),
    Layout.SIDE_MULTIMAP: Ends(
        lambda port: SideSink(port.tag, port.rows, port.coder, multimap=True)
    ),
}
"""All that is known of each layout."""


def sink_of(layout: Layout, port: Port, *, firings: bool) -> Sink:
    """Return the writer of a layout; with firings, its rows tell the firings they belong to."""
    made = ENDS[layout].sink
    if not firings:
        return made(port)
    # Such ports are of streaming queries, where all rows go to such a writer.
    writer = cast("FiringWriter", port.rows)
    return TellingSink(lambda rows: made(replace(port, rows=rows)), writer)
