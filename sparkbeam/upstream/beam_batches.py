"""Assumptions about Beam's batches of elements; see :mod:`sparkbeam.upstream.beam`."""

from typing import Any, NamedTuple

import pyarrow as pa
from apache_beam.transforms import core
from apache_beam.typehints.arrow_type_compatibility import (
    PyarrowArrayBatchConverter,
    PyarrowBatchConverter,
)
from apache_beam.typehints.batch import BatchConverter
from apache_beam.typehints.pandas_type_compatibility import (
    DataFrameBatchConverter,
    SeriesBatchConverter,
    dtype_from_typehint,
)

from sparkbeam.upstream.beam import handles_batches


class Batching(NamedTuple):
    """Batch handling of a DoFn.

    Attributes:
        taken: converts input batches; None if it takes none.
        made: converts output batches; None if it makes none.
        takes_elements: whether single elements go to its ``process``.
        elements_give_batches: whether ``process`` returns batches.
        batches_give_batches: whether ``process_batch`` returns batches.
    """

    taken: BatchConverter[Any, Any] | None
    made: BatchConverter[Any, Any] | None
    takes_elements: bool
    elements_give_batches: bool
    batches_give_batches: bool


def batching_of(fn: core.DoFn) -> Batching | None:
    """Return the batch handling of a DoFn; None if it handles elements only."""
    if not handles_batches(fn):
        return None
    return Batching(
        getattr(fn, "input_batch_converter", None),
        getattr(fn, "output_batch_converter", None),
        bool(fn._process_defined),
        bool(fn._process_yields_batches),
        not fn._process_batch_yields_elements,
    )


def schema_of_batches(converter: PyarrowBatchConverter) -> pa.Schema:
    """Return the schema of the tables that a converter makes."""
    return converter._arrow_schema


def type_of_batches(converter: PyarrowArrayBatchConverter) -> pa.DataType:
    """Return the type of the arrays that a converter makes."""
    return converter._arrow_type


def dtypes_of_batches(converter: DataFrameBatchConverter) -> dict[str, Any]:
    """Return the dtypes of the DataFrames that a converter makes, by column."""
    return {name: dtype_from_typehint(hint) for name, hint in converter.element_type._fields}


def dtype_of_batches(converter: SeriesBatchConverter) -> Any:
    """Return the dtype of the Series that a converter makes."""
    return converter._dtype
