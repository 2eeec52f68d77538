"""Conversion of Arrow types that lack kernels to equivalent types.

Texts and bytes may be views, as written by DataFusion and newer polars.
"""

from functools import lru_cache

import pyarrow as pa

from sparkbeam.columns.reasons import UnknownShape

_WITHOUT_VIEWS: dict[pa.DataType, pa.DataType] = {}
if hasattr(pa, "string_view"):  # Since PyArrow 16.
    _WITHOUT_VIEWS |= {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}


def plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch of the same values that Arrow kernels support.

    Raises:
        UnknownShape: no equivalent type exists.
    """
    schema = plain_schema(batch.schema)
    if schema == batch.schema:
        return batch
    return pa.RecordBatch.from_arrays([*map(plain_array, batch.columns)], schema=schema)


def plain_array(array: pa.Array) -> pa.Array:
    """Return an array of the same values that Arrow kernels support.

    Raises:
        UnknownShape: no equivalent type exists.
    """
    kind = plain_type(array.type)
    return array if kind == array.type else array.cast(kind)


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema of :func:`plain` batches; an equal one if they are plain.

    Raises:
        UnknownShape: no equivalent type exists.
    """
    if schema.metadata is None:
        return _plain_schema(schema)
    # Before PyArrow 21 a schema with metadata has no hash.
    return _plain_schema(schema.remove_metadata()).with_metadata(schema.metadata)


@lru_cache(maxsize=1000)
def _plain_schema(schema: pa.Schema) -> pa.Schema:
    types = [plain_type(part.type) for part in schema]
    if types == schema.types:
        return schema
    parts = zip(schema, types, strict=True)
    return pa.schema([part.with_type(kind) for part, kind in parts])


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the equivalent type that Arrow kernels support.

    Raises:
        UnknownShape: no equivalent type exists.
    """
    if kind in _WITHOUT_VIEWS:
        return _WITHOUT_VIEWS[kind]
    if pa.types.is_run_end_encoded(kind):
        raise UnknownShape(f"Arrow cannot select rows of {kind}")
    if not pa.types.is_nested(kind):
        return kind
    parts = [kind.field(at) for at in range(kind.num_fields)]
    plain_parts = [part.with_type(plain_type(part.type)) for part in parts]
    return kind if plain_parts == parts else _nested(kind, plain_parts)


def _nested(kind: pa.DataType, parts: list[pa.Field]) -> pa.DataType:
    """Return a nested type with other parts."""
    if pa.types.is_struct(kind):
        return pa.struct(parts)
    if pa.types.is_map(kind):
        (entries,) = parts
        return pa.map_(entries.type.field(0), entries.type.field(1), kind.keys_sorted)
    (item,) = parts
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(item, kind.list_size)
    if pa.types.is_large_list(kind):
        return pa.large_list(item)
    if pa.types.is_list(kind):
        return pa.list_(item)
    raise UnknownShape(f"Arrow cannot select rows of {kind}")
