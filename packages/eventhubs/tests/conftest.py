"""A hub for each test."""

from collections.abc import Iterator

import pytest

from pyspark_eventhubs.pool import POOL
from pyspark_eventhubs.testing import EventHubsServer


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[EventHubsServer]:
    """A server with the hub ``clicks`` of two partitions, or as many as ``hub_partitions`` says.

    What this process has open to it is closed at the end.
    """
    mark = request.node.get_closest_marker("hub_partitions")
    with EventHubsServer({"clicks": mark.args[0] if mark else 2}) as started:
        yield started
    POOL.close()


@pytest.fixture
def base(server: EventHubsServer) -> dict[str, str]:
    """The options of a source or sink of the server."""
    return {"connectionString": server.connection_string("clicks")}
