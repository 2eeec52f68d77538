"""From the rows of a Spark source, in Arrow's columns, to elements and to cells of them."""

from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.coders import coder_impl, coders
from apache_beam.internal import pickler
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils import windowed_value
from apache_beam.utils.timestamp import Timestamp

from sparkbeam.plan.sparkio import ReadSpec
from sparkbeam.upstream.beam import clear
from sparkbeam.wire.failure import Reports
from sparkbeam.wire.rows import CELL_BYTES, PLAIN_CELL, RowBuffer
from sparkbeam.wire.times import MIN_MICROS
from sparkbeam.worker.blocks import BLOCK_SIZE, Block
from sparkbeam.worker.layouts.cells import BlockCoder

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

Converter = Callable[[Any], Any]


class RowReader:
    """Makes elements of the rows of a source.

    Args:
        spec: of the source.
        partitioned: the rows come with their partitions.
        time: the timestamp of all rows, in place of theirs.

    Attributes:
        newest: the latest timestamp of each partition, in microseconds; all rows of a source
            that has none are in the partition ``""``.
    """

    def __init__(
        self, spec: ReadSpec, *, partitioned: bool = False, time: int | None = None
    ) -> None:
        self._spec = spec
        self._partitioned = partitioned
        self._time = time
        coder = coders.WindowedValueCoder(pickler.loads(spec.coder), coders.GlobalWindowCoder())
        self._encode = coder.get_impl().encode_to_stream
        self._encode_block = BlockCoder(coder).encode
        self._windows = (GlobalWindow(),)
        self.newest: dict[str, int] = {}

    def blocks(self, batch: pa.RecordBatch) -> Iterator[Block]:
        """The elements of a batch, with the timestamp of each if they differ.

        Args:
            batch: the columns of the source, the timestamps in microseconds, and the partitions
                if there are any.

        Raises:
            ValueError: a timestamp is null.
        """
        *columns, times = batch.columns[:-1] if self._partitioned else batch.columns
        if not batch.num_rows:
            return
        if self._time is not None:
            times = pa.repeat(pa.scalar(self._time, pa.int64()), batch.num_rows)
        if times.null_count:
            raise ValueError(f"the timestamp column '{self._spec.timestamp_column}' has a null")
        # Towards zero, as Beam's coders do.
        times = pc.multiply(pc.divide(times, 1000), 1000)
        span = pc.min_max(times).as_py()
        if self._partitioned:
            self._note(batch.columns[-1], times)
        else:
            self._note_one("", span["max"])
        values = _values(self._spec.columns, columns)
        create, windows = windowed_value.create, self._windows
        if span["min"] == span["max"]:
            template = create(None, span["min"], windows)
            while some := list(islice(values, BLOCK_SIZE)):
                yield Block(template, some)
        else:
            template = create(None, MIN_MICROS, windows)
            stamps = iter(times.to_pylist())
            while some := list(islice(values, BLOCK_SIZE)):
                yield Block(template, some, list(islice(stamps, len(some))))

    def _note(self, partitions: pa.Array, times: pa.Array) -> None:
        table = pa.table({"partition": partitions, "time": times})
        for row in table.group_by("partition").aggregate([("time", "max")]).to_pylist():
            self._note_one(row["partition"], row["time_max"])

    def _note_one(self, partition: str, micros: int) -> None:
        self.newest[partition] = max(micros, self.newest.get(partition, micros))

    def cells(self, blocks: Iterable[Block]) -> Iterator[bytes]:
        """Elements as cells of ``Layout.CHUNKS``."""
        encode = self._encode
        stream = coder_impl.create_OutputStream()
        for block in blocks:
            if block.stamps is None:
                yield self._encode_block(block)
                continue
            for element in block.elements():
                encode(element, stream, True)
            if stream.size() >= CELL_BYTES:
                yield PLAIN_CELL + stream.get()
                clear(stream)
        if stream.size():
            yield PLAIN_CELL + stream.get()


@dataclass(frozen=True)
class BatchRows:
    """The function for ``mapInArrow`` over a source in batch.

    Attributes:
        label: of the transform.
        spec: of the source.
        tag: of the port that the rows belong to.
        reports: those of the run, of its failures.
    """

    label: str
    spec: ReadSpec
    tag: int
    reports: Reports

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        full: list[pa.RecordBatch] = []
        rows = RowBuffer(full.append)
        try:
            reader = RowReader(self.spec)
            number = 0
            for batch in batches:
                for cell in reader.cells(reader.blocks(batch)):
                    rows.append(self.tag, None, number, cell)
                    number += 1
                    yield from full
                    full.clear()
        except Exception as error:
            raise self.reports.report(error, self.label) from None
        rows.flush()
        yield from full


def _values(names: tuple[str, ...], columns: list[pa.Array]) -> Iterator[Any]:
    """The rows as objects with these attributes, as the coder of rows needs them."""
    plain = []
    for column in columns:
        convert = _converter(column.type)
        if pa.types.is_timestamp(column.type):
            micros = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).to_pylist()
            plain.append([None if m is None else Timestamp(micros=m) for m in micros])
        elif convert is None:
            plain.append(column.to_pylist())
        else:
            plain.append([_optional(convert, value) for value in column.to_pylist()])
    # Beam's own classes for rows take three times as long to make.
    return map(_row_class(names)._make, zip(*plain, strict=True))


def _row_class(names: tuple[str, ...]) -> Any:
    return namedtuple("Row", names)


def _optional(convert: Converter, value: Any) -> Any:
    return None if value is None else convert(value)


def _converter(kind: pa.DataType) -> Converter | None:
    """What makes of Arrow's Python values those of Beam's schemas; None for nothing."""
    if pa.types.is_timestamp(kind):
        return _timestamp
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        convert = _converter(kind.value_type)
        return None if convert is None else lambda items: [_optional(convert, i) for i in items]
    if pa.types.is_map(kind):
        of_key, of_item = _converter(kind.key_type), _converter(kind.item_type)
        return lambda pairs: {
            _optional(of_key, key) if of_key else key: _optional(of_item, item) if of_item else item
            for key, item in pairs
        }
    if pa.types.is_struct(kind):
        made = _row_class(tuple(part.name for part in kind))
        parts = [(part.name, _converter(part.type)) for part in kind]
        return lambda row: made(
            *(_optional(convert, row[name]) if convert else row[name] for name, convert in parts)
        )
    return None


def _timestamp(moment: datetime) -> Timestamp:
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return Timestamp(micros=(aware - _EPOCH) // _MICROSECOND)
