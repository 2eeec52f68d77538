"""Datagrams from tasks to the driver, with a token that tells its own from all others.

They are sent when they can be and lost when they cannot: no task waits for one, and nothing that
has to be right depends on one.
"""

import contextlib
import hmac
import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_MOST = 60_000


@dataclass(frozen=True)
class Mailbox:
    """Where tasks send datagrams to.

    Attributes:
        host, port: the driver's.
        token: proves that a datagram is of a task of this run.
    """

    host: str
    port: int
    token: str = field(repr=False)

    def post(self, content: Mapping[str, Any]) -> bool:
        """Sends a datagram, or loses it; never waits. False if it is too large for one."""
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
    """A datagram with a token."""
    return json.dumps({"token": token, **content}).encode()


def opened(datagram: bytes, token: str) -> dict[str, Any]:
    """What a datagram holds besides the token.

    Raises:
        Exception: of whatever type, where it has another token, or is no such datagram.
    """
    content: dict[str, Any] = json.loads(datagram)
    if not hmac.compare_digest(str(content.pop("token")).encode(), token.encode()):
        raise ValueError("wrong token")
    return content
