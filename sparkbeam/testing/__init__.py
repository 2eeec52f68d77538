"""What tests of pipelines need that talk to other systems.

========================  ===============================================================
:class:`EventHubsServer`  an event hub on this machine, with faults on demand
:class:`StoredEvent`      an event that it has
========================  ===============================================================
"""

from sparkbeam.testing.eventhubs.server import EventHubsServer
from sparkbeam.testing.eventhubs.store import StoredEvent

__all__ = ["EventHubsServer", "StoredEvent"]
