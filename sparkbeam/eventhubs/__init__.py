"""Azure Event Hubs as a Spark data source; Beam has no part in it.

==========================  =============================================================
:class:`EventHubsSource`    ``spark.readStream.format("eventhubs")``, and ``spark.read``
:class:`EventPosition`      where reading begins or ends
==========================  =============================================================

:mod:`sparkbeam.io.eventhubs` has the transforms of a pipeline over it.
"""

from sparkbeam.eventhubs.data_source import EventHubsSource
from sparkbeam.eventhubs.positions import EventPosition

__all__ = ["EventHubsSource", "EventPosition"]
