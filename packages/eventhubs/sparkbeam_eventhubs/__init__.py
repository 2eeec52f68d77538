"""Azure Event Hubs as a source and a sink of a pipeline.

- :class:`ReadFromEventHubs`: events of a hub, or of a range of it in batch
- :class:`WriteToEventHubs`: elements as events of a hub
- :class:`EventHubsEvent`: element type of reads
- :class:`EventPosition`: start or end of reading
- :class:`SlowPartitions`: smaller shares for partitions that are slow to read
- :class:`PartitionStatus`: partition status, for monitors

They only run on :class:`sparkbeam.SparkRunner`.
"""

from typing import TYPE_CHECKING

from sparkbeam.common.lazy_names import loader

if TYPE_CHECKING:
    from pyspark_eventhubs.monitoring import PartitionStatus
    from pyspark_eventhubs.positions import EventPosition
    from pyspark_eventhubs.slow_partitions import SlowPartitions
    from sparkbeam_eventhubs.hub_event import EventHubsEvent
    from sparkbeam_eventhubs.read import ReadFromEventHubs
    from sparkbeam_eventhubs.write import WriteToEventHubs

__all__ = [
    "EventHubsEvent",
    "EventPosition",
    "PartitionStatus",
    "ReadFromEventHubs",
    "SlowPartitions",
    "WriteToEventHubs",
]

_HOMES = {
    "EventHubsEvent": "sparkbeam_eventhubs.hub_event",
    "EventPosition": "pyspark_eventhubs.positions",
    "PartitionStatus": "pyspark_eventhubs.monitoring",
    "ReadFromEventHubs": "sparkbeam_eventhubs.read",
    "SlowPartitions": "pyspark_eventhubs.slow_partitions",
    "WriteToEventHubs": "sparkbeam_eventhubs.write",
}
__getattr__ = loader(__name__, _HOMES)
