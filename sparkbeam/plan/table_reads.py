"""The step of a source of the user's own that reads record batches, or the parts that matter."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import apache_beam as beam
import pyarrow as pa

from sparkbeam.columns.vectors import union_places
from sparkbeam.common.placeholders import filling, is_filled
from sparkbeam.plan.table_rows import Batch


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
        needed: of them, those that are read.
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
            for part in batch.to_batches() if isinstance(batch, pa.Table) else (batch,):
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
            fields: the fields.
            there: columns by name.
            count: of rows.
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
