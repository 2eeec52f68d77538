"""Arrow record batches from a user's function as a PCollection."""

from collections.abc import Callable, Iterable
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam import typehints
from apache_beam.pvalue import PBegin, PCollection, Row

from sparkbeam.columns import UnknownShape
from sparkbeam.columns.python_types import is_plain_namedtuple
from sparkbeam.common import arguments
from sparkbeam.errors import ConfigurationError
from sparkbeam.plan.arrow_batches import Batch, ElementsOfBatches, ReadBatches


class ReadFromArrow(beam.PTransform[PBegin, PCollection[Any]]):
    """Reads record batches from a function, in parallel: a custom source.

    ::

        class Reading(NamedTuple):
            sensor: int
            value: float

        def read(day: str) -> Iterator[pa.RecordBatch]:
            yield from pyarrow.dataset.dataset(f"readings/{day}").to_batches()

        readings = p | ReadFromArrow(days, read, Reading, timestamp_column="at")

    With sparkbeam the rows stay columns while later steps support columns; other runners get an
    element per row.

    If the schema is known in advance, unused columns need not be read::

        def read(day: str, columns: list[str]) -> Iterator[pa.RecordBatch]:
            yield from pyarrow.dataset.dataset(f"readings/{day}").to_batches(columns=columns)

        readings = p | ReadFromArrow(days, read, Reading, timestamp_column="at", schema=SCHEMA)

    Args:
        splits: the picklable parts of the source; each is read by one task.
        read: returns the batches, or tables, of a split. With a schema it also gets the names of
            the columns that the steps use, as a list in the order of the schema, and may omit the
            others. The list is empty if only rows are counted. For a dense union these are the
            fields of its children, with the name of their class: ``"Reading.sensor"``.
        element_type: the type of the rows: a NamedTuple class whose fields are the columns, in
            order; ``beam.Row``; or a tuple of NamedTuple classes, if the only column is a dense
            union with a child for each of them.
        timestamp_column: the column with the event time, which is not a field then: timestamps, or
            integers in microseconds since the epoch. By default the elements have the earliest
            timestamp.
        schema: of all batches, apart from omitted columns.

    Raises:
        ConfigurationError: an argument is invalid.
    """

    def __init__(
        self,
        splits: Iterable[Any],
        read: Callable[..., Iterable[Batch]],
        element_type: Any = Row,
        *,
        timestamp_column: str | None = None,
        schema: pa.Schema | None = None,
    ) -> None:
        super().__init__()
        arguments.function("read", read, "use one that maps a split to record batches")
        kinds = element_type if isinstance(element_type, tuple) else (element_type,)
        wrong = [kind for kind in kinds if kind is not Row and not is_plain_namedtuple(kind)]
        if wrong or (isinstance(element_type, tuple) and (Row in kinds or not kinds)):
            raise ConfigurationError(
                f"element_type={arguments.shown(element_type)} is not supported: give a NamedTuple "
                "class, beam.Row, or a tuple of NamedTuple classes."
            )
        if timestamp_column is not None:
            arguments.text("timestamp_column", timestamp_column, "use the name of a column")
        if not isinstance(splits, Iterable):
            raise ConfigurationError(
                f"splits={arguments.shown(splits)} must be a list: one item per call of `read`."
            )
        self._splits = list(splits)
        self._element_type = element_type
        self._elements = ElementsOfBatches(element_type, timestamp_column, schema)
        if schema is not None:
            if not isinstance(schema, pa.Schema):
                raise ConfigurationError(
                    f"schema={arguments.shown(schema)} must be the pyarrow.Schema of the batches."
                )
            try:
                self._elements.rows(schema)
            except UnknownShape as error:
                raise ConfigurationError(f"schema does not match the elements: {error}.") from None
        members = element_type if isinstance(element_type, tuple) else ()
        self._batches = ReadBatches(read, schema, members, timestamp_column)

    def expand(self, pbegin: PBegin) -> PCollection[Any]:
        kind = self.get_type_hints().simple_output_type(self.label)
        if kind in (None, typehints.Any):
            is_any = isinstance(self._element_type, tuple) or self._element_type is Row
            kind = Any if is_any else self._element_type
        return (
            pbegin
            | "Splits" >> beam.Create(self._splits)
            | "Spread" >> beam.Reshuffle()
            | "Read" >> beam.ParDo(self._batches).with_output_types(Batch)
            | "Rows" >> beam.ParDo(self._elements).with_output_types(kind)
        )
