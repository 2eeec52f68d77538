"""Hooks of :class:`.ReadFromEventHubs` over AMQP."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

from pyspark_eventhubs.source_options import EPOCH, PLACES, REPORT_BIND, REPORT_HOST
from sparkbeam.hooks import QueryStart, SourceHooks
from sparkbeam.observe.collection.listener import reachable_at
from sparkbeam.spark.session import cores
from sparkbeam.streaming.checkpoint_files import next_epoch, stored_places
from sparkbeam.streaming.exhausted_partitions import ExhaustedPartitions
from sparkbeam_eventhubs import source


@dataclass(frozen=True)
class HubHooks(SourceHooks):
    """Hooks of the data source of a pipeline."""

    partition_columns: ClassVar[tuple[str, ...]] = ("event_hub", "partition")
    tells_ends: ClassVar[bool] = True
    freezes: ClassVar[bool] = True

    def register(self, session: Any) -> None:
        session.dataSource.register(source.PipelineHubSource)

    def query_options(self, start: QueryStart) -> Mapping[str, str]:
        return dict(_options(start))


def _options(start: QueryStart) -> Iterator[tuple[str, str]]:
    noted = ExhaustedPartitions(start.checkpoint, start.tag).text()
    yield source.PARTITIONS, noted
    if start.asks_ends:
        yield source.ENDS, noted
    yield EPOCH, str(next_epoch(start.files))
    yield PLACES, str(stored_places(start.files, cores(start.session)))
    with suppress(Exception):  # Optional.
        reachable = reachable_at(start.session)
        if reachable is not None:
            host, bind = reachable
            yield REPORT_HOST, host
            yield REPORT_BIND, bind
    if start.freezes:
        yield source.FREEZES, "true"
