"""The data source of Event Hubs, as a streaming pipeline reads it."""

from collections.abc import Mapping
from typing import Any

from sparkbeam.eventhubs.source import EventHubsSource, NoteEnds
from sparkbeam.streaming.ends import Ends

ENDS = "ends"
"""The option with where to note which partitions have nothing left; see :class:`.Ends`."""


class PipelineHubSource(EventHubsSource):
    """Notes for the watermark which partitions have nothing left, if it is told where."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        given = {name.lower(): value for name, value in options.items()}
        ends = given.pop(ENDS, None)
        super().__init__(given)
        self._ends = None if ends is None else Ends.parse(ends)

    def _note_ends(self) -> NoteEnds | None:
        return None if self._ends is None else self._ends.write
