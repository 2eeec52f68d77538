"""Servers for tests of pipelines that talk to other systems.

========================  ===============================================================
:class:`EventHubsServer`  an event hub on this machine, with faults on demand
:class:`StoredEvent`      an event that it stores
========================  ===============================================================
"""

from pyspark_eventhubs.server.event_store import StoredEvent
from pyspark_eventhubs.server.hub_server import EventHubsServer

__all__ = ["EventHubsServer", "StoredEvent"]
