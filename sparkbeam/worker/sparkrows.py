"""From the rows of a Spark source to cells of encoded elements.

The elements are encoded in the tasks that read the source, from Arrow's columns, in the
coder of the PCollection that they become. Rows with one timestamp travel as blocks.
"""

from collections import namedtuple
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.coders import coder_impl, coders
from apache_beam.internal import pickler
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils import windowed_value
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.plan.sparkio import ReadSpec
from sparkbeam.worker import failure
from sparkbeam.worker.rows import CELL_BYTES, PLAIN_CELL, RowBuffer
from sparkbeam.worker.sinks import BlockCoder
from sparkbeam.worker.streaming import rows as messages
from sparkbeam.worker.streaming.times import MIN_MICROS

_BLOCK_ROWS = 2000
_CHECKED_ROWS = 500
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

Converter = Callable[[Any], Any]


class RowEncoder:
    """Encodes the rows of a source.

    Args:
        spec: of the source.

    Attributes:
        rows: how many have been encoded.
        newest: the latest timestamp of them, in microseconds.
    """

    def __init__(self, spec: ReadSpec) -> None:
        self._spec = spec
        coder = coders.WindowedValueCoder(pickler.loads(spec.coder), coders.GlobalWindowCoder())
        self._encode = coder.get_impl().encode_to_stream
        self._encode_block = BlockCoder(coder).encode
        self._windows = (GlobalWindow(),)
        self.rows = 0
        self.newest = MIN_MICROS

    def cells(self, batch: pa.RecordBatch) -> Iterator[bytes]:
        """The elements of a batch as cells of ``Layout.CHUNKS``.

        Args:
            batch: the columns of the source, and the timestamps in microseconds.

        Raises:
            ValueError: a timestamp is null.
        """
        *columns, times = batch.columns
        if not batch.num_rows:
            return
        if times.null_count:
            raise ValueError(f"the timestamp column '{self._spec.timestamp_column}' has a null")
        span = pc.min_max(times).as_py()
        self.rows += batch.num_rows
        self.newest = max(self.newest, span["max"])
        values = _values(self._spec.columns, columns)
        if span["min"] == span["max"]:
            yield from self._blocks(span["min"], list(values))
        else:
            yield from self._chunks(times.to_pylist(), values)

    def _blocks(self, micros: int, values: list[Any]) -> Iterator[bytes]:
        template = WindowedValue(None, Timestamp(micros=micros), self._windows)
        for start in range(0, len(values), _BLOCK_ROWS):
            yield self._encode_block(template, values[start : start + _BLOCK_ROWS])

    def _chunks(self, times: list[int], values: Iterator[Any]) -> Iterator[bytes]:
        create, encode, windows = windowed_value.create, self._encode, self._windows
        stream = coder_impl.create_OutputStream()
        for number, (micros, value) in enumerate(zip(times, values, strict=True), start=1):
            encode(create(value, micros, windows), stream, True)
            if number % _CHECKED_ROWS == 0 and stream.size() >= CELL_BYTES:
                yield PLAIN_CELL + stream.get()
                stream._clear()
        if stream.size():
            yield PLAIN_CELL + stream.get()


@dataclass(frozen=True)
class StreamedRows:
    """The function for ``mapInArrow`` over a source of a streaming query.

    Attributes:
        label: of the transform.
        spec: of the source.
        tag: of the port that the rows belong to.
        shard, depth: where to send word of what was seen: a shard, and the sink's layer.
    """

    label: str
    spec: ReadSpec
    tag: int
    shard: int
    depth: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            encoder = RowEncoder(self.spec)
            for batch in batches:
                for cell in encoder.cells(batch):
                    yield _message(0, 0, self.tag, messages.pack([(b"", 0, cell)]))
        except Exception as error:
            raise failure.report(error, self.label) from None
        if encoder.rows:
            seen = messages.dump(messages.Seen(self.tag, encoder.rows, encoder.newest))
            yield _message(self.shard, self.depth, messages.SEEN_TAG, seen)


def _message(shard: int, layer: int, tag: int, value: bytes) -> pa.RecordBatch:
    columns = [
        pa.array([cell], kind.type)
        for cell, kind in zip((shard, layer, 0, tag, value), messages.SCHEMA, strict=True)
    ]
    return pa.record_batch(columns, schema=messages.SCHEMA)


@dataclass(frozen=True)
class BatchRows:
    """The function for ``mapInArrow`` over a source in batch.

    Attributes:
        label: of the transform.
        spec: of the source.
        tag: of the port that the rows belong to.
    """

    label: str
    spec: ReadSpec
    tag: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        full: list[pa.RecordBatch] = []
        rows = RowBuffer(full.append)
        try:
            encoder = RowEncoder(self.spec)
            number = 0
            for batch in batches:
                for cell in encoder.cells(batch):
                    rows.append(self.tag, None, number, cell)
                    number += 1
                    yield from full
                    full.clear()
        except Exception as error:
            raise failure.report(error, self.label) from None
        rows.flush()
        yield from full


def _values(names: tuple[str, ...], columns: list[pa.Array]) -> Iterator[Any]:
    """The rows as objects with these attributes, as the coder of rows needs them."""
    plain = []
    for column in columns:
        convert = _converter(column.type)
        values = column.to_pylist()
        plain.append(values if convert is None else [_optional(convert, v) for v in values])
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
