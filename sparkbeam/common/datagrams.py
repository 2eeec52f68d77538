"""Authenticated datagrams from tasks to the driver.

Delivery is best effort: no task waits for it, and correctness never depends on it.
"""

import contextlib
import hmac
import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

LARGEST = 1 << 16
"""Bytes that a datagram has at most."""

_MOST = 60_000


@dataclass(frozen=True)
class Mailbox:
    """Address for datagrams to the driver."""

    host: str
    port: int
    token: str = field(repr=False)

    def post(self, content: Mapping[str, Any]) -> bool:
        """Send a datagram without waiting; return False if it is too large."""
        message = sealed(content, self.token)
        if len(message) > _MOST:
            return False
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
        ):
            sender.setblocking(False)
            sender.sendto(message, (self.host, self.port))
        return True


def sealed(content: Mapping[str, Any], token: str) -> bytes:
    """Encode a datagram with its token."""
    return json.dumps({"token": token, **content}).encode()


def opened(datagram: bytes, token: str) -> dict[str, Any]:
    """Decode a datagram and check its token.

    Raises:
        Exception: of any type, if the token is wrong or the datagram malformed.
    """
    content: dict[str, Any] = json.loads(datagram)
    if not hmac.compare_digest(str(content.pop("token")).encode(), token.encode()):
        raise ValueError("wrong token")
    return content
