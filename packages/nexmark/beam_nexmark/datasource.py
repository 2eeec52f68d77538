"""Nexmark events as a Spark data source, independent of Beam."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from beam_nexmark.configuration import Configuration
from beam_nexmark.generator import (
    EventBatch,
    EventNumbers,
    auctions,
    bids,
    in_generator_order,
    persons,
)
from sparkbeam.errors import ConfigurationError

_PARTITION = 200_000
_BATCH = 50_000

Generate = Callable[..., pa.RecordBatch]


class NexmarkDataSource(DataSource):
    """The data source ``nexmark``, with a row per event or per bid.

    ::

        spark.dataSource.register(NexmarkDataSource)
        spark.read.format("nexmark").option("events", 1_000_000).load()
        spark.read.format("nexmark").option("kind", "bid").load()

    Options are ``kind`` (``event``, ``person``, ``auction`` or ``bid``) and the numbers of
    :class:`~beam_nexmark.configuration.Configuration`, by their names. Events have the structs
    ``person``, ``auction`` and ``bid`` as columns, all but one null; the other kinds have the
    fields of :mod:`beam_nexmark.events`. A schema with fewer columns selects these.

    Raises:
        ConfigurationError: an option is unknown, or its value invalid.
    """

    @classmethod
    def name(cls) -> str:
        return "nexmark"

    def schema(self) -> StructType:
        generate, configuration = _parsed(self.options)
        return from_arrow_schema(_generated(generate, configuration, 0, 0).schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        generate, configuration = _parsed(self.options)
        missing = set(schema.names) - set(self.schema().names)
        if missing:
            raise ConfigurationError(f"The source 'nexmark' has no column '{min(missing)}'.")
        if generate is not _events:
            generate = partial(generate, wanted=schema.names)
        return _Reader(generate, configuration, schema.names)


@dataclass
class _EventRange(InputPartition):
    start: int
    stop: int


@dataclass
class _Reader(DataSourceReader):
    generate: Generate
    configuration: Configuration
    columns: Sequence[str]

    def partitions(self) -> Sequence[InputPartition]:
        events = self.configuration.events
        return [
            _EventRange(start, min(start + _PARTITION, events))
            for start in range(0, events, _PARTITION)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _EventRange)
        for start in range(partition.start, partition.stop, _BATCH):
            stop = min(start + _BATCH, partition.stop)
            yield _generated(self.generate, self.configuration, start, stop).select(self.columns)


def _events(configuration: Configuration, numbers: EventNumbers) -> pa.RecordBatch:
    return EventBatch.generate(configuration, numbers).to_arrow()


_KINDS: Mapping[str, Generate] = {
    "event": _events,
    "person": persons,
    "auction": auctions,
    "bid": bids,
}


def _parsed(options: Mapping[str, str]) -> tuple[Generate, Configuration]:
    given = {name.lower(): value for name, value in options.items()}
    kind = given.pop("kind", "event")
    if kind not in _KINDS:
        raise ConfigurationError(
            f"The source 'nexmark' has no kind '{kind}': use one of {', '.join(_KINDS)}."
        )
    return _KINDS[kind], Configuration.parsed(given)


def _generated(
    generate: Generate, configuration: Configuration, start: int, stop: int
) -> pa.RecordBatch:
    return generate(configuration, in_generator_order(configuration, start, stop))
