"""Specifications of Spark's own sources and sinks: payloads of transforms, and parts of a plan.

The options of a source or a sink may hold passwords and keys, which no description of a plan
shows; see :mod:`sparkbeam.plan.redaction`.
"""

import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

from sparkbeam.common.display_text import shortened
from sparkbeam.plan.source_hooks import SourceHooks

READ_URN = "sparkbeam:read_from_spark:v1"
"""A root whose rows Spark reads; its payload is a :class:`ReadSpec`."""

WRITE_URN = "sparkbeam:write_to_spark:v1"
"""An end of a pipeline whose cells go to a Spark sink; its payload is a :class:`WriteSpec`."""

PARTITION_SEPARATOR = "/"
"""Separator between the values of several columns that identify the partition of a row."""

APPEND, UPDATE, COMPLETE = OUTPUT_MODES = ("append", "update", "complete")
"""Output modes of a sink, as Structured Streaming names them."""

Options = tuple[tuple[str, str], ...]
"""The options of a source or sink; hashable, so that what holds them is."""


class RowPacker:
    """A DoFn that packs elements into rows for a sink of Spark."""

    @property
    def takes_columns(self) -> bool:
        """True if elements that are columns stay columns."""
        return True

    @property
    def is_for_query(self) -> bool:
        """True if the rows, with their timestamps, become a table of a query."""
        return False


class _Payload:
    options: Options

    def option(self, name: str) -> str:
        """Return the option with a name, which is in lower case here; empty if there is none."""
        return next((value for given, value in self.options if given.lower() == name), "")

    def with_options(self, more: Mapping[str, str]) -> Self:
        """Return the same specification with options in place of others of their names."""
        names = {name.lower() for name in more}
        kept = (given for given in self.options if given[0].lower() not in names)
        spec: Any = self
        changed: Self = replace(spec, options=(*kept, *more.items())) if more else spec
        return changed

    def pack(self) -> bytes:
        """Encode it as a payload."""
        return pickle.dumps(self)

    @classmethod
    def unpack(cls, payload: bytes) -> Self:
        """Return the inverse of :meth:`pack`."""
        spec: Self = pickle.loads(payload)
        return spec


QUERY_FUNCTION = "the function in its query"
"""Text before the name of a function of the user that fails."""


@dataclass(frozen=True)
class QueryFunction:
    """A function of the user that a query calls, as Spark ships it to workers.

    Attributes:
        call: takes the values of columns and returns one, pickled.
        type: the type of its results, as Spark's DDL.
    """

    name: str
    call: bytes = field(repr=False)
    type: str

    def __call__(self, *values: Any) -> Any:
        """Call the function."""
        return self._call(*values)

    @cached_property
    def _call(self) -> Callable[..., Any]:
        from apache_beam.internal import pickler  # Who plans a source has no use for Beam.

        call: Callable[..., Any] = pickler.loads(self.call)
        return call


@dataclass(frozen=True)
class ReadSpec(_Payload):
    """Specification of a read by Spark: of a data source, a table, a query or a DataFrame.

    Attributes:
        format: the format of the data source; empty for other kinds of reads.
        options: the options of the data source or the table.
        table: the name of a table or view; empty for none.
        query: the text of a query in SQL; empty for none.
        inputs: the schemas of the PCollections that the query reads, as Spark's JSON; None for a
            query of tables of the session. Each ends with the timestamps of the elements, and so
            do the columns of the result, which are read by their positions.
        functions: that the query calls, beside those of the session.
        frame: the number under which the process has a DataFrame; empty for none.
        schema: the schema that the source is given, as Spark's JSON; None for none.
        columns: the names of the columns to read.
        timestamp_column: the column of the event time; None for none.
        delay: the lag of the watermark, in microseconds.
        partition_columns: the columns whose values together identify the partition of a row.
        tells_partitions: the offsets of the source are by these columns.
        by_files: the partition of a row is its file.
        idle: the idle timeout of a partition without rows, in microseconds; None: never. A
            partition that is known to have nothing left no longer holds the watermark back.
        follows_clock: the watermark follows the clock once all partitions are idle.
        idle_lag: the lag with which each idle partition follows the clock, in microseconds; None
            for one that no longer holds the watermark back.
        derived: columns that are not the source's, each with its SQL expression over those.
        coder: the coder of the elements, pickled; set when the pipeline is translated.
        in_columns: steps may take the rows as columns; set likewise.
        needed: the names of the columns that are read; None for all. Set likewise.
        looked_at: the names of the columns that some step reads, of a source that may have to
            compute the others nevertheless; None for all. Set likewise.
        is_compiled: all work on its rows in the stage that reads them is known to be done over
            columns, without a call of the user's code. Set likewise, in batch.
        nested: the names that are dotted paths into structs, of all the names.
    """

    format: str = ""
    options: Options = field(default=(), repr=False)
    schema: str | None = None
    columns: tuple[str, ...] = ()
    timestamp_column: str | None = None
    delay: int = 0
    partition_columns: tuple[str, ...] = ()
    tells_partitions: bool = False
    by_files: bool = False
    idle: int | None = None
    follows_clock: bool = False
    idle_lag: int | None = None
    derived: Options = ()
    hooks: SourceHooks = field(default=SourceHooks(), repr=False)
    coder: bytes = field(default=b"", repr=False)
    in_columns: bool = True
    needed: tuple[str, ...] | None = None
    looked_at: tuple[str, ...] | None = None
    is_compiled: bool = False
    nested: tuple[str, ...] = ()
    table: str = ""
    query: str = field(default="", repr=False)
    inputs: tuple[str, ...] | None = None
    functions: tuple[QueryFunction, ...] = ()
    frame: str = ""

    @property
    def kind(self) -> str:
        """Kind of the read, as a word that determines the possible columns and partitions."""
        return self.format or ("table" if self.table else "query" if self.query else "DataFrame")

    @property
    def what(self) -> str:
        """Description of the read for a message; the text of a query may hold a secret."""
        if self.table:
            return f"the table '{shortened(self.table, 60)}'"
        return f"'{shortened(self.format, 60)}'" if self.format else f"the {self.kind}"

    @property
    def read(self) -> tuple[str, ...]:
        """The names of the columns that Spark reads."""
        return self.columns if self.needed is None else self.needed

    @property
    def tells_ends(self) -> bool:
        """True if streaming learns which partitions have nothing left."""
        return self.tells_partitions and self.hooks.tells_ends

    @property
    def asks_hidden(self) -> bool:
        """True if the source is asked whether a silent partition has rows that it hides."""
        if not (self.hooks.checks_offsets and self.hooks.hides_rows):
            return False
        return self.tells_partitions and self.idle is not None

    @property
    def is_partitioned(self) -> bool:
        """True if its rows come with their partitions in streaming."""
        return self.timestamp_column is not None and bool(self.partition_columns or self.by_files)

    def of_workers(self) -> "ReadSpec":
        """Return the specification for the workers, which need no hooks."""
        return replace(self, hooks=SourceHooks())

    def of_files(self) -> "ReadSpec":
        """Return the specification for workers that read its files, with nothing to be computed."""
        return self if self.looked_at is None else replace(self, needed=self.looked_at)

    def translated(self, coder: bytes, *, in_columns: bool) -> "ReadSpec":
        """Return the same specification with what is known once the pipeline is translated."""
        return replace(self, coder=coder, in_columns=in_columns)


@dataclass(frozen=True)
class WriteSpec(_Payload):
    """Specification of a write by Spark: to a data source or table, or by a user's function.

    Attributes:
        format: the format of the data source; None for a function or a writer, or for a table that
            has a format already or is made with Spark's default.
        options: the options of the data source or the table.
        partition_by: the columns by which rows go into separate folders.
        output_mode: the rows that a micro-batch delivers: ``append`` for its own, ``update`` for
            the latest of each key among them, ``complete`` for the latest of each key so far.
        key: the columns that identify a row; empty in append mode.
        order_by: the columns by which the delivered rows are sorted, each with its direction
            (true for ascending).
        empty_batches: micro-batches without rows are delivered too.
        schema: the schema of the rows, as Spark's JSON; None if the writer gets the elements.
        function: takes each micro-batch as a DataFrame, pickled; empty for none.
        writer: takes each element, pickled; empty for none.
        in_one_task: one writer takes all elements of a micro-batch.
        has_manifest: files are to be in a log that Spark's readers follow.
        table: the name of the table; empty for none.
    """

    format: str | None = None
    options: Options = field(default=(), repr=False)
    mode: str = "append"
    partition_by: tuple[str, ...] = ()
    output_mode: str = APPEND
    key: tuple[str, ...] = ()
    order_by: tuple[tuple[str, bool], ...] = ()
    empty_batches: bool = False
    schema: str | None = None
    function: bytes = field(default=b"", repr=False)
    writer: bytes = field(default=b"", repr=False)
    in_one_task: bool = False
    has_manifest: bool = False
    table: str = ""

    @property
    def source(self) -> str:
        """The name of the data source in lower case, as Spark compares it; empty if none."""
        return (self.format or "").lower()

    @property
    def is_complete(self) -> bool:
        """True if each delivery is the whole result so far."""
        return self.output_mode == COMPLETE
