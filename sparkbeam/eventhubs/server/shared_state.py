"""What the connections of a server share: hubs, faults, who reads what, and what has happened."""

import base64
import hashlib
import hmac
import time
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import parse_qs, unquote

from sparkbeam.eventhubs.server.event_store import Hub

Place = tuple[str, str, str]
"""Hub, consumer group and partition."""


class Receiving(Protocol):
    """A link over which a partition is read."""

    epoch: int | None

    def pump(self) -> None:
        """Sends what there is and what the receiver wants."""

    def stolen(self, reason: str) -> None:
        """Ends because of another receiver."""


@dataclass
class Counts:
    """What a server has been asked for.

    Attributes:
        connections: opened in all.
        receivers: links that were attached to read a partition.
        senders: links that were attached to send.
        requests: to the management node.
        tokens: put by clients.
        flows: grants of credit and the like.
        delivered: events sent to receivers.
        stolen: receivers that were disconnected by others.
    """

    connections: int = 0
    receivers: int = 0
    senders: int = 0
    requests: int = 0
    tokens: int = 0
    flows: int = 0
    delivered: int = 0
    stolen: int = 0


@dataclass
class Faults:
    """What is to go wrong.

    Attributes:
        busy: how many of the next receivers, sends and requests are told to come again.
        reset_after: after how many more events a connection breaks in the middle of one.
        frozen: nothing is read or written any more, and connections stay open.
    """

    busy: int = 0
    reset_after: int | None = None
    frozen: bool = False

    def is_busy(self) -> bool:
        """Whether the next operation is refused; counts it."""
        if self.busy <= 0:
            return False
        self.busy -= 1
        return True


@dataclass
class State:
    """All of a server.

    Attributes:
        hubs: by name.
        key: the shared access key that tokens are signed with; empty to take any token.
        readers: the receivers of each place.
        counts: what has happened.
        faults: what is to go wrong.
        most_in_message: bytes of the largest message that is taken.
    """

    hubs: dict[str, Hub]
    key: str
    readers: dict[Place, list[Receiving]] = field(default_factory=dict)
    counts: Counts = field(default_factory=Counts)
    faults: Faults = field(default_factory=Faults)
    most_in_message: int = 1 << 20

    def pump(self, hub: str, partition: int) -> None:
        """Sends receivers of a partition what is new."""
        for (name, _, number), readers in self.readers.items():
            if name == hub and number == str(partition):
                for reader in list(readers):
                    reader.pump()

    def trusts(self, token: Any) -> bool:
        """Whether a token is signed with the key and has not expired."""
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
    """How a shared access key signs the name of a resource and a time in seconds."""
    digest = hmac.new(key.encode(), f"{resource}\n{expiry}".encode(), hashlib.sha256).digest()
    return base64.b64encode(digest).decode()
