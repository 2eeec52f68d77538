"""Azure Event Hubs as a source and a sink of a pipeline.

- :class:`ReadFromEventHubs`: events of a hub, or of a range of it in batch
- :class:`WriteToEventHubs`: elements as events of a hub
- :class:`EventHubsEvent`: element type of reads
- :class:`EventPosition`: start or end of reading
- :class:`SlowPartitions`: smaller shares for partitions that are slow to read
- :class:`PartitionStatus`: partition status, for monitors

They only run on :class:`sparkbeam.SparkRunner`.
"""

from sparkbeam.common.partition_status import PartitionStatus
from sparkbeam.eventhubs.positions import EventPosition
from sparkbeam.eventhubs.slow_partitions import SlowPartitions
from sparkbeam.hubs.read import ReadFromEventHubs
from sparkbeam.hubs.write import WriteToEventHubs
from sparkbeam.io.hub_event import EventHubsEvent

__all__ = [
    "EventHubsEvent",
    "EventPosition",
    "PartitionStatus",
    "ReadFromEventHubs",
    "SlowPartitions",
    "WriteToEventHubs",
]
