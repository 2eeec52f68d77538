"""Azure Event Hubs as a Spark data source, independent of Beam.

==========================  =============================================================
:class:`EventHubsSource`    ``spark.readStream.format("eventhubs")``, and ``spark.read``
:class:`EventPosition`      where reading begins or ends
==========================  =============================================================

Beam transforms over it are in :mod:`sparkbeam_eventhubs`.
"""

from pyspark_eventhubs.data_source import EventHubsSource
from pyspark_eventhubs.positions import EventPosition

__all__ = ["EventHubsSource", "EventPosition"]
