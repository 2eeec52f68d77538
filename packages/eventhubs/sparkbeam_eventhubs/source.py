"""The Event Hubs data source of a streaming pipeline."""

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark_eventhubs.data_source import EventHubsSource, NoteEnds
from pyspark_eventhubs.monitoring import Watch
from sparkbeam.streaming.exhausted_partitions import ExhaustedPartitions
from sparkbeam.streaming.partition_notes import NotePartitions

ENDS = "ends"
"""Option with the file for exhausted partitions; see :class:`.ExhaustedPartitions`."""

PARTITIONS = "partitions"
"""Option with the file for the status of partitions, in the same form."""

FREEZES = "freezes"
"""Option of an available-now run, if Spark does not tell its sources of it."""


class PipelineHubSource(EventHubsSource):
    """Event Hubs source that records exhausted partitions and partition status, if configured."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        given = {name.lower(): value for name, value in options.items()}
        ends, partitions = given.pop(ENDS, None), given.pop(PARTITIONS, None)
        self._is_frozen = given.pop(FREEZES, None) is not None
        super().__init__(given)
        self._partitions = None if partitions is None else ExhaustedPartitions.parse(partitions)
        self._ends = None if ends is None else ExhaustedPartitions.parse(ends)

    def _note_ends(self) -> NoteEnds | None:
        return None if self._ends is None else self._ends.write

    def _freezes(self) -> bool:
        return self._is_frozen

    def _watches(self) -> Sequence[Watch]:
        at = self._partitions
        return () if at is None else (NotePartitions(at.checkpoint, at.tag),)
