"""What sparkbeam assumes of Beam's batches of elements; see :mod:`sparkbeam.upstream.beam`."""

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
    """How a DoFn takes and makes batches of elements.

    Attributes:
        taken: knows the batches that it takes; None where it takes none.
        made: knows those that it makes; None where it makes none.
        takes_elements: single elements go to its ``process``.
        elements_give_batches: what ``process`` makes are batches.
        batches_give_batches: what ``process_batch`` makes are batches.
    """

    taken: BatchConverter[Any, Any] | None
    made: BatchConverter[Any, Any] | None
    takes_elements: bool
    elements_give_batches: bool
    batches_give_batches: bool


def batching_of(fn: core.DoFn) -> Batching | None:
    """How a DoFn of a pipeline handles batches; None for one that knows of elements alone."""
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
    """The columns of the tables that a converter makes."""
    return converter._arrow_schema


def type_of_batches(converter: PyarrowArrayBatchConverter) -> pa.DataType:
    """The type of the arrays that a converter makes."""
    return converter._arrow_type


def dtypes_of_batches(converter: DataFrameBatchConverter) -> dict[str, Any]:
    """The columns of the DataFrames that a converter makes."""
    return {name: dtype_from_typehint(hint) for name, hint in converter.element_type._fields}


def dtype_of_batches(converter: SeriesBatchConverter) -> Any:
    """The dtype of the Series that a converter makes."""
    return converter._dtype
