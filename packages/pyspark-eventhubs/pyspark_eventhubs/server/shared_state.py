"""State shared by the connections of a server: hubs, faults, receivers and counters."""

import base64
import hashlib
import hmac
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote

from pyspark_eventhubs.server.event_store import Hub

if TYPE_CHECKING:
    from pyspark_eventhubs.server.links import Reader

Place = tuple[str, str, str]
"""Hub, consumer group and partition of a receiver."""


@dataclass
class RequestCounts:
    """Numbers of client requests to a server.

    Attributes:
        receivers: links attached for reading a partition.
        requests: for the properties of hubs and partitions.
        delivered: events sent to receivers.
        stolen: receivers that others have replaced.
    """

    connections: int = 0
    receivers: int = 0
    requests: int = 0
    delivered: int = 0
    stolen: int = 0


@dataclass
class Faults:
    """Injected faults.

    Attributes:
        busy: the number of next receivers, sends and requests that get a busy error.
        reset_after: the number of events after which a connection is reset within a frame.
        frozen: whether reading and writing has stopped, while connections stay open.
    """

    busy: int = 0
    reset_after: int | None = None
    frozen: bool = False

    def is_busy(self) -> bool:
        """Count down and return whether the next operation is refused."""
        if self.busy <= 0:
            return False
        self.busy -= 1
        return True


@dataclass
class State:
    """The state of a server.

    Attributes:
        key: the shared access key that signs tokens; empty to accept any token.
        readers: the receivers of each place.
        most_in_message: the bytes of the largest accepted message.
    """

    hubs: dict[str, Hub]
    key: str
    readers: "dict[Place, list[Reader]]" = field(default_factory=dict)
    counts: RequestCounts = field(default_factory=RequestCounts)
    faults: Faults = field(default_factory=Faults)
    most_in_message: int = 1 << 20

    def pump(self, hub: str, partition: int) -> None:
        """Send new events to the receivers of a partition."""
        for (name, _, number), readers in self.readers.items():
            if name == hub and number == str(partition):
                for reader in list(readers):
                    reader.pump()

    def trusts(self, token: Any) -> bool:
        """Return whether a token is signed with the key and has not expired."""
        if not self.key:
            return True
        _, _, fields = str(token).partition(" ")
        parts = {name: values[0] for name, values in parse_qs(fields).items()}
        if not {"sr", "sig", "se"} <= parts.keys() or not parts["se"].isdigit():
            return False
        resource = next(part[3:] for part in fields.split("&") if part.startswith("sr="))
        signed = any(
            hmac.compare_digest(signature(self.key, form, parts["se"]), parts["sig"])
            for form in (resource, unquote(resource))
        )
        return signed and int(parts["se"]) > time.time()


def signature(key: str, resource: str, expiry: str) -> str:
    """Sign the name of a resource and an expiry in seconds with a shared access key."""
    digest = hmac.new(key.encode(), f"{resource}\n{expiry}".encode(), hashlib.sha256).digest()
    return base64.b64encode(digest).decode()
