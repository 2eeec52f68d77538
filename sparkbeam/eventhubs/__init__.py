"""Azure Event Hubs as a Spark data source, independent of Beam.

==========================  =============================================================
:class:`EventHubsSource`    ``spark.readStream.format("eventhubs")``, and ``spark.read``
:class:`EventPosition`      where reading begins or ends
==========================  =============================================================

Beam transforms over it are in :mod:`sparkbeam.io.eventhubs`.
"""

from sparkbeam.common import pyspark_needed as _pyspark_needed  # noqa: F401
from sparkbeam.eventhubs.data_source import EventHubsSource
from sparkbeam.eventhubs.positions import EventPosition

__all__ = ["EventHubsSource", "EventPosition"]
