"""Writers and readers of each format of rows."""

from collections.abc import Callable, Iterator

from apache_beam.coders import coders

from sparkbeam.plan.row_formats import (
    AggregateRows,
    ElementRows,
    GroupRows,
    JoinRows,
    KeyedRows,
    RowFormat,
    SideInputRows,
)
from sparkbeam.wire.rows import Row
from sparkbeam.worker.blocks import Block
from sparkbeam.worker.row_formats import (
    aggregate_rows,
    element_rows,
    group_rows,
    join_rows,
    keyed_rows,
    side_input_rows,
)
from sparkbeam.worker.row_formats.row_writer import Sink, WriterParameters
from sparkbeam.worker.row_formats.telling import FiringTaggedSink

WRITERS: dict[type[RowFormat], Callable[[WriterParameters], Sink]] = {
    ElementRows: element_rows.ChunkSink,
    GroupRows: group_rows.writer,
    AggregateRows: aggregate_rows.writer,
    KeyedRows: keyed_rows.writer,
    SideInputRows: side_input_rows.SideSink,
    JoinRows: join_rows.writer,
}
"""Makers of the writers; those of a format with parameters find them in the port."""

READERS: dict[
    type[RowFormat], Callable[[Iterator[Row], coders.WindowedValueCoder], Iterator[Block]]
] = {ElementRows: element_rows.read, KeyedRows: keyed_rows.read}
"""Readers of all elements, of the coder they were written with.

The rows of other formats are read by what groups or joins them, or as side inputs.
"""


def writer_of(output: WriterParameters) -> Sink:
    """Return the writer of a port; rows tell their firings if readers need that."""
    made = WRITERS[type(output.port.format)]
    return FiringTaggedSink(made, output) if output.port.firings else made(output)
