"""Record batches as elements: the steps of ``ReadFromArrow``, and those of Beam's Parquet reads."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from sparkbeam.columns import Shape, UnknownShape, shape_of
from sparkbeam.columns.python_values import values_of
from sparkbeam.columns.vectors import Micros, as_counted, union_places
from sparkbeam.common.placeholders import filling, is_filled
from sparkbeam.plan.memo import memoized
from sparkbeam.plan.model import Plan
from sparkbeam.plan.pardo_functions import dofn_in, dofn_of
from sparkbeam.plan.parsed_stage import parsed
from sparkbeam.upstream.beam_files import DividedRead, source_of_read, with_source
from sparkbeam.upstream.parquet import RowGroupSource, parquet_schema

Batch: TypeAlias = pa.RecordBatch | pa.Table


def record_batches(batch: Batch) -> Sequence[pa.RecordBatch]:
    """Return the record batches of a table, or the one that it is."""
    return batch.to_batches() if isinstance(batch, pa.Table) else [batch]


@dataclass(frozen=True)
class RowsOfTables:
    """Elements that a step makes of tables with the same columns.

    Attributes:
        timestamp_column: the column with their timestamps; None if they keep that of the table.
        of_one_column: they are the values of the one other column, and not records of all.
    """

    shape: Shape
    timestamp_column: str | None = None
    of_one_column: bool = False

    def elements(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the elements of a batch."""
        if self.timestamp_column is not None:
            batch = batch.select([n for n in batch.schema.names if n != self.timestamp_column])
        return as_counted(batch.column(0) if self.of_one_column else batch.to_struct_array())

    def times(self, batch: pa.RecordBatch) -> Micros | None:
        """Return the timestamps of elements in microseconds; None if they keep that of the batch.

        Raises:
            ValueError: one of them is null.
        """
        if self.timestamp_column is None:
            return None
        times = batch.column(self.timestamp_column)
        if times.null_count:
            raise ValueError(f"the timestamp column '{self.timestamp_column}' has a null")
        if pa.types.is_timestamp(times.type):
            times = pc.cast(times, pa.timestamp("us", times.type.tz), safe=False)
        micros = times.cast(pa.int64())
        # Towards zero, as Beam's coders do.
        return np.asarray(pc.multiply(pc.divide(micros, 1000), 1000))


class ElementsOfBatches(beam.DoFn):
    """DoFn that makes elements of the rows of record batches.

    Args:
        kind: what the rows are: a NamedTuple class that has the columns as its fields, or
            ``beam.Row``. A tuple of NamedTuple classes where the one column is a dense union,
            which has a child for each of them.
        timestamp_column: the column with the timestamps, which is no field then: timestamps, or
            integers that count microseconds. None if there is none.
        schema: the schema of the batches; None if only they tell.
    """

    def __init__(
        self, kind: Any, timestamp_column: str | None, schema: pa.Schema | None = None
    ) -> None:
        super().__init__()
        self._kind = kind
        self._timestamp_column = timestamp_column
        self.schema = schema

    def rows(self, schema: pa.Schema) -> RowsOfTables:
        """Return a description of the elements that it makes of the rows of batches.

        Raises:
            UnknownShape: the columns do not fit.
        """
        names = [name for name in schema.names if name != self._timestamp_column]
        if self._timestamp_column is not None and len(names) + 1 != len(schema.names):
            raise UnknownShape(f"the timestamp column '{self._timestamp_column}' is missing")
        if isinstance(self._kind, tuple):
            if len(names) != 1:
                raise UnknownShape(f"elements of several types need one column, not {len(names)}")
            shape = shape_of(schema.field(names[0]).type, self._kind)
            return RowsOfTables(shape, self._timestamp_column, of_one_column=True)
        fields = getattr(self._kind, "_fields", tuple(names))
        if fields != tuple(names):
            raise UnknownShape(
                f"{self._kind.__name__} has the fields {', '.join(fields)}, and the batch has "
                f"the columns {', '.join(names)}"
            )
        shape = shape_of(pa.struct([schema.field(name) for name in names]), self._kind)
        return RowsOfTables(shape, self._timestamp_column)

    def process(self, batch: Batch) -> Iterator[Any]:
        """Give the elements one by one."""
        rows = self.rows(batch.schema)
        for part in record_batches(batch):
            values, times = values_of(rows.elements(part), rows.shape), rows.times(part)
            if times is None:
                yield from values
                continue
            for value, micros in zip(values, times.tolist(), strict=True):
                yield TimestampedValue(value, Timestamp(micros=micros))


class ReadBatches(beam.DoFn):
    """Reader of the record batches of a split.

    Args:
        read: gives the batches of a split, or where there is a schema, of a split and a list of
            the names of their parts that matter.
        schema: the schema of the batches; None if only they tell.
        kinds: the classes of the members of a dense union, of which each field is a part. All
            other columns are parts as they are.
        timestamp_column: the one with the timestamps, which is always read; None if there is none.
        needed: the names of the other parts that are read; None for all.

    Attributes:
        names: column names in order; a member's field is ``Class.field``.
    """

    def __init__(
        self,
        read: Callable[..., Iterable[Batch]],
        schema: pa.Schema | None,
        kinds: tuple[type, ...],
        timestamp_column: str | None,
        needed: frozenset[str] | None = None,
    ) -> None:
        super().__init__()
        self._read = read
        self._schema = schema
        self._kinds = kinds
        self._timestamp_column = timestamp_column
        parts = [] if schema is None else list(_parts(schema, kinds))
        self.names = [name for name, _ in parts]
        self.needed = [
            name
            for name, kind in parts
            if needed is None or name in needed or name == timestamp_column or not is_filled(kind)
        ]

    def process(self, split: Any) -> Iterator[Batch]:
        """Give the batches, each with all columns of the schema."""
        if self._schema is None:
            yield from self._read(split)
            return
        for batch in self._read(split, self.needed):
            for part in record_batches(batch):
                yield part if part.schema.equals(self._schema) else self._filled(part)

    def reading(self, needed: frozenset[str]) -> "ReadBatches":
        """Return a reader of these columns; others are placeholders."""
        return ReadBatches(self._read, self._schema, self._kinds, self._timestamp_column, needed)

    def _filled(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        assert self._schema is not None
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        return pa.RecordBatch.from_arrays(
            list(self._of_fields(self._schema, columns, len(batch))), schema=self._schema
        )

    def _of_fields(
        self, fields: Iterable[pa.Field], there: dict[str, pa.Array], count: int, of: str = ""
    ) -> Iterator[pa.Array]:
        """Yield the columns of some fields.

        Args:
            of: the prefix of the names of the parts.

        Raises:
            ValueError: a column is missing, or of another type.
        """
        for field in fields:
            column = there.get(field.name)
            if column is None:
                if of + field.name in self.needed:
                    raise ValueError(f"the batch has no column '{of}{field.name}'")
                column = filling(field.type, count)
            elif _is_union(field.type, self._kinds) and _is_union(column.type, self._kinds):
                column = self._union(field.type, column)
            if column.type != field.type:
                raise ValueError(
                    f"the column '{of}{field.name}' is {column.type}, but the schema has "
                    f"{field.type}"
                )
            yield column

    def _union(self, kind: pa.DenseUnionType, column: pa.UnionArray) -> pa.UnionArray:
        codes, places = union_places(column)
        children = []
        for code, member in enumerate(self._kinds):
            child = column.field(code)
            there = {part.name: child.field(part.name) for part in child.type}
            fields = list(kind.field(code).type)
            arrays = list(self._of_fields(fields, there, len(child), f"{member.__name__}."))
            children.append(pa.StructArray.from_arrays(arrays, fields=fields, mask=child.is_null()))
        names = [kind.field(code).name for code in range(len(children))]
        return pa.UnionArray.from_dense(pa.array(codes), pa.array(places), children, names)


@dataclass(frozen=True)
class NeededColumns:
    """The columns that a step reads of tables, or the source that it emits.

    Attributes:
        reading: the label of the transform that the step is a part of.
        names: the names of the columns; others are placeholders.
        count: the number of all columns.
        schema: all columns of the source; None if the step itself reads.
    """

    reading: str
    names: tuple[str, ...]
    count: int
    schema: pa.Schema | None = None

    @classmethod
    def of(
        cls, step: beam_runner_api_pb2.PTransform, names: frozenset[str]
    ) -> "NeededColumns | None":
        """Return the columns that a step must read.

        None for steps that read no tables, or if they must read all columns.

        Args:
            names: the columns that later steps need.
        """
        fn, label = dofn_of(step), step.unique_name
        if isinstance(fn, ReadBatches):
            needed, count = fn.reading(names).needed, len(fn.names)
            some = cls(label.rpartition("/")[0], tuple(needed), count)
            return some if len(needed) < count else None
        source = source_of_read(fn)
        if not isinstance(source, RowGroupSource):
            return None
        schema = schema_read(step.spec.payload)
        fewer = source.reading(names, schema)
        if schema is None or fewer is None or fewer.needed is None:
            return None
        return cls(label.rpartition("/Read/")[0], tuple(fewer.needed), len(schema), schema)

    def applied(self, fn: beam.DoFn) -> beam.DoFn:
        """Return the DoFn of the step, limited to the columns."""
        names = frozenset(self.names)
        if isinstance(fn, ReadBatches):
            return fn.reading(names)
        source = source_of_read(fn)
        assert isinstance(source, RowGroupSource)
        fewer = source.reading(names, self.schema)
        assert fewer is not None
        return with_source(fn, fewer)


def emitting_step(plan: Plan, reading: str) -> beam_runner_api_pb2.PTransform | None:
    """Return the step that emits the source of Beam's ``Read`` with a label; None if unknown."""
    for stage in plan.stages:
        for transform in parsed(stage).transforms.values():
            is_within = transform.unique_name.startswith(f"{reading}/")
            if is_within and source_of_read(dofn_of(transform)) is not None:
                return transform
    return None


@memoized
def schema_read(payload: bytes) -> pa.Schema | None:
    """Return the columns of the Parquet files of which a step puts out a source, or None.

    Args:
        payload: the payload of the step, a ParDo.
    """
    fn = dofn_in(payload)
    return parquet_schema(source_of_read(fn), fn.footers if isinstance(fn, DividedRead) else None)


def _parts(
    fields: Iterable[pa.Field], kinds: tuple[type, ...], of: str = ""
) -> Iterator[tuple[str, pa.DataType]]:
    """Yield the names and types of the parts that can be read alone."""
    for field in fields:
        if not _is_union(field.type, kinds):
            yield of + field.name, field.type
            continue
        for code, member in enumerate(kinds):
            yield from _parts(field.type.field(code).type, (), f"{member.__name__}.")


def _is_union(kind: pa.DataType, kinds: tuple[type, ...]) -> bool:
    """Return whether a type is that of records of some classes."""
    return (
        bool(kinds)
        and pa.types.is_union(kind)
        and kind.num_fields == len(kinds)
        and all(pa.types.is_struct(kind.field(code).type) for code in range(len(kinds)))
    )
