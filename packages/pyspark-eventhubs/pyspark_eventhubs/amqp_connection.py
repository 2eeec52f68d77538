"""Connection to a namespace of Event Hubs: one socket, one session, and links by handle."""

import base64
import contextlib
import hashlib
import hmac
import itertools
import socket
import ssl
import struct
import time
import uuid
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote_plus

from pyspark_eventhubs.amqp import frames
from pyspark_eventhubs.amqp.values import (
    Described,
    Symbol,
    UByte,
    UInt,
    UShort,
    decode,
    encode,
    sections,
)
from pyspark_eventhubs.events import BrokenOffError, error_of
from pyspark_eventhubs.settings import Endpoint
from pyspark_eventhubs.transfer_decoding import Inbox, handle_of

CBS, MANAGEMENT = "$cbs", "$management"
SECONDS = 30.0
_TLS_PORT, _PLAIN_PORT = 5671, 5672
_FRAME = 1 << 20
_WINDOW = UInt(1 << 30)
_TOKEN_SECONDS = 3600
_RENEWED = 0.75
"""The part of its time behind which a token is renewed."""

_SCOPE = "https://eventhubs.azure.net/.default"


@dataclass
class AmqpLink:
    """One direction of traffic.

    Attributes:
        ended: the condition and description of its end.
        credit: the total number of messages that may be sent.
        most: the maximum bytes of a message; None for no limit.
        inbox: the received events of a receiving link.
        answers: the received replies of a reply link.
        outcomes: the outcomes of sent messages, by number.
    """

    handle: int
    is_open: bool = False
    ended: tuple[str, str] | None = None
    credit: int = 0
    sent: int = 0
    most: int | None = None
    inbox: Inbox | None = None
    answers: list[bytes] = field(default_factory=list)
    outcomes: dict[int, Described | None] = field(default_factory=dict)


class AmqpConnection:
    """A connection to a namespace, with the token for one event hub.

    Args:
        endpoint: the address, and the key or the credential.

    Attributes:
        token: the last token put.

    Raises:
        BrokenOffError: connecting failed.
        EventHubsError: the token is refused.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._what = f"the event hub '{endpoint.hub}' cannot be reached"
        self._data = bytearray()
        self._links: dict[int, AmqpLink] = {}
        self._opened: dict[int, list[Any]] = {}
        self._incoming = 0
        self._outgoing = 0
        self._max_frame = 512
        self._renew_at = 0.0
        self._nodes: dict[str, tuple[AmqpLink, AmqpLink]] = {}
        self.token = ""
        self.is_broken = False
        try:
            self._socket = _connected(endpoint)
        except OSError as error:
            raise BrokenOffError(f"{self._what}: {error}") from None
        try:
            self._begin()
            self.authorize()
        except BaseException:
            self.close()
            raise

    def _begin(self) -> None:
        deadline = time.monotonic() + SECONDS
        self._write(frames.SASL_HEADER)
        self._header(frames.SASL_HEADER, deadline)
        self._write(frames.frame(0, frames.SASL_INIT, [Symbol("ANONYMOUS"), b"", None]))
        self._until_code(frames.SASL_OUTCOME, deadline)
        host = self._endpoint.host.partition(":")[0]
        limits = [UInt(_FRAME), UShort(0), None]
        self._write(
            frames.HEADER
            + frames.frame(0, frames.OPEN, [f"sparkbeam-{uuid.uuid4()}", host, *limits])
            + frames.frame(0, frames.BEGIN, [None, UInt(0), _WINDOW, _WINDOW, UInt(4095)])
        )
        self._header(frames.HEADER, deadline)
        opened = self._until_code(frames.OPEN, deadline)
        self._max_frame = opened[2] or (1 << 16)
        self._until_code(frames.BEGIN, deadline)

    def _header(self, wanted: bytes, deadline: float) -> None:
        while len(self._data) < 8:
            self._receive(deadline)
        found = bytes(self._data[:8])
        del self._data[:8]
        if found != wanted:
            raise BrokenOffError(f"{self._what}: the peer does not speak AMQP 1.0")

    def _until_code(self, code: int, deadline: float) -> list[Any]:
        while code not in self._opened:
            if not self._take_all():
                self._receive(deadline)
        return self._opened[code]

    def authorize(self) -> None:
        """Put a token, if the current one expires soon."""
        if time.monotonic() < self._renew_at:
            return
        host, hub = self._endpoint.host.partition(":")[0], self._endpoint.hub
        audience = f"sb://{host}/{hub}"
        kind, self.token, seconds = self._token(audience)
        asked = {"operation": "put-token", "type": kind, "name": audience}
        status, said, _ = self.request(CBS, asked, self.token)
        if status >= 300:
            raise error_of("amqp:unauthorized-access", f"{status} {said}", self._what)
        self._renew_at = time.monotonic() + _RENEWED * seconds

    def _token(self, audience: str) -> tuple[str, str, float]:
        """Return the kind of a new token, the token, and the seconds for which it is valid."""
        credential = self._endpoint.credential
        if credential is None:
            token = signature_for(self._endpoint, audience)
            return "servicebus.windows.net:sastoken", token, _TOKEN_SECONDS
        try:
            found = credential.get_token(_SCOPE)
        except Exception as error:
            problem = f"the credential failed with {type(error).__name__}: {error}"
            is_final = type(error).__name__ == "ClientAuthenticationError"
            condition = "com.microsoft:auth-failed" if is_final else ""
            raise error_of(condition, problem, self._what) from None
        return "jwt", found.token, found.expires_on - time.time()

    def attach(
        self,
        *,
        receives: bool,
        source: Described,
        target: Described,
        properties: dict[Symbol, Any] | None = None,
        inbox: Inbox | None = None,
        doing: str = "",
    ) -> AmqpLink:
        """Open a link.

        Raises:
            EventHubsError: the peer refuses it.
        """
        # A service may allow few of them.
        free = next(handle for handle in itertools.count() if handle not in self._links)
        link = AmqpLink(free, inbox=inbox)
        self._links[link.handle] = link
        modes = [UByte(1 if receives else 0), UByte(0)]
        count = None if receives else UInt(0)
        rest = [None, None, count, None, None, None, properties]
        name = str(uuid.uuid4())
        ends = [source, target]
        fields = [name, UInt(link.handle), receives, *modes, *ends, *rest]
        self._write(frames.frame(0, frames.ATTACH, fields))
        deadline = time.monotonic() + SECONDS
        while not link.is_open:
            self.work(deadline, link, doing)
        return link

    def work(self, deadline: float, link: AmqpLink, doing: str = "") -> None:
        """Process what has arrived, or wait for something.

        Raises:
            EventHubsError: the peer has closed the link.
            BrokenOffError: the connection has failed, or the deadline has passed.
        """
        try:
            if link.ended is None and not self._take_all():
                self._receive(deadline)
                self._take_all()
        except ValueError as error:
            raise self._broken(error) from None
        if link.ended is not None:
            raise error_of(*link.ended, doing or self._what)

    def _take_all(self) -> bool:
        """Dispatch all complete frames; return whether there was one."""
        data, at, taken = bytes(self._data), 0, False
        while at + 8 <= len(data):
            size = _SIZE(data, at)[0]
            if size < 8 or at + size > len(data):
                break
            start, end = at + 4 * data[at + 4], at + size
            at, taken = end, True
            if start == end:
                continue
            handle = handle_of(data, start)
            link = self._links.get(handle)
            if link is not None and link.inbox is not None:
                self._incoming += 1
                link.inbox.receive_transfer(data, start, end)
            else:
                performative, behind = decode(data, start)
                fields = frames.padded(int(performative.code), list(performative.value))
                self._dispatch(int(performative.code), fields, data[behind:end])
        del self._data[:at]
        return taken

    def _dispatch(self, code: int, fields: list[Any], payload: bytes) -> None:
        link = self._links.get(fields[0]) if code in (frames.TRANSFER, frames.DETACH) else None
        match code:
            case frames.SASL_OUTCOME | frames.OPEN | frames.BEGIN:
                self._opened[code] = fields
            case frames.ATTACH:
                self._attached(fields)
            case frames.FLOW:
                sender = self._links.get(fields[4])
                if sender is not None:
                    sender.credit = (fields[5] or 0) + (fields[6] or 0)
            case frames.TRANSFER:
                self._incoming += 1
                if link is not None:
                    link.answers.append(payload)
            case frames.DISPOSITION:
                self._record_outcomes(fields)
            case frames.DETACH:
                if link is not None:
                    self._detached(link, fields[2])
            case frames.END | frames.CLOSE:
                raise self._broken(" ".join(_error_fields(fields[0])))

    def _detached(self, link: AmqpLink, error: Any) -> None:
        """Record that a link is detached by both peers; its handle is free."""
        del self._links[link.handle]
        if link.ended is None:
            link.ended = _error_fields(error)
            self._write(frames.frame(0, frames.DETACH, [UInt(link.handle), True, None]))

    def _attached(self, fields: list[Any]) -> None:
        link = self._links.get(fields[1])
        if link is not None:
            link.is_open = True
            link.most = fields[10] or None

    def _record_outcomes(self, fields: list[Any]) -> None:
        for number in range(fields[1], (fields[2] if fields[2] is not None else fields[1]) + 1):
            for link in self._links.values():
                if number in link.outcomes:
                    link.outcomes[number] = fields[4] or Described(frames.ACCEPTED, [])

    def grant(self, link: AmqpLink, received: int, count: int) -> None:
        """Grant credit for more messages."""
        session = [UInt(self._incoming), _WINDOW, UInt(self._outgoing), _WINDOW]
        self._write(
            frames.frame(0, frames.FLOW, [*session, UInt(link.handle), UInt(received), UInt(count)])
        )

    def send_disposition(self, first: int, last: int) -> None:
        """Settle a range of transfers."""
        accepted = Described(frames.ACCEPTED, [])
        fields = [True, UInt(first), UInt(last), True, accepted]
        self._write(frames.frame(0, frames.DISPOSITION, fields))

    def detach(self, link: AmqpLink) -> None:
        """Detach a link; the peer's reply is processed when it arrives."""
        if link.ended is None:
            link.ended = ("", "the link was closed")
            self._write(frames.frame(0, frames.DETACH, [UInt(link.handle), True, None]))

    def send(self, link: AmqpLink, message: bytes, format: int = 0) -> None:
        """Send a message and wait until it is accepted.

        Raises:
            EventHubsError: it is refused.
        """
        deadline = time.monotonic() + SECONDS
        while link.credit <= link.sent:
            self.work(deadline, link)
        number = self._outgoing
        self._outgoing += 1
        link.sent += 1
        link.outcomes[number] = None
        self._write(b"".join(self._transfers(link, number, message, format)))
        while link.outcomes[number] is None:
            self.work(deadline, link)
        outcome = link.outcomes.pop(number)
        assert outcome is not None
        if int(outcome.code) != frames.ACCEPTED:
            raise error_of(*_error_fields(outcome.value[0] if outcome.value else None), self._what)

    def _transfers(self, link: AmqpLink, number: int, message: bytes, format: int) -> list[bytes]:
        room = self._max_frame - 64
        starts = range(0, max(1, len(message)), room)
        tag = struct.pack(">I", number)
        return [
            frames.frame(
                0,
                frames.TRANSFER,
                [UInt(link.handle), UInt(number), tag, UInt(format), False, at != starts[-1]],
                message[at : at + room],
            )
            for at in starts
        ]

    def request(self, node: str, asked: dict[str, Any], body: Any) -> tuple[int, str, Any]:
        """Send a request to a node; return the status, its description and the reply."""
        if node not in self._nodes:
            self._nodes[node] = self._node(node)
        sender, receiver = self._nodes[node]
        properties = [str(uuid.uuid4()), None, None, None, "answers"]
        message = (
            encode(Described(frames.PROPERTIES, properties))
            + encode(Described(frames.APPLICATION_PROPERTIES, asked))
            + encode(Described(frames.VALUE, body))
        )
        self.send(sender, message)
        deadline = time.monotonic() + SECONDS
        while not receiver.answers:
            self.work(deadline, receiver)
        found = {code: value for code, value, _, _ in sections(receiver.answers.pop(0))}
        told = {str(name): value for name, value in found[frames.APPLICATION_PROPERTIES].items()}
        status = told.get("status-code", told.get("statusCode", 500))
        said = told.get("status-description", told.get("statusDescription", ""))
        return int(status), str(said), found.get(frames.VALUE)

    def _node(self, node: str) -> tuple[AmqpLink, AmqpLink]:
        there, here = (
            [Described(code, [name]) for code in (frames.SOURCE, frames.TARGET)]
            for name in (node, "answers")
        )
        sender = self.attach(receives=False, source=here[0], target=there[1])
        receiver = self.attach(receives=True, source=there[0], target=here[1])
        self.grant(receiver, 0, 1 << 20)
        return sender, receiver

    def _write(self, data: bytes) -> None:
        try:
            self._socket.settimeout(SECONDS)
            self._socket.sendall(data)
        except OSError as error:
            raise self._broken(error) from None

    def _receive(self, deadline: float) -> None:
        """Wait for data.

        Raises:
            BrokenOffError: the deadline has passed, or the connection has failed.
        """
        self._socket.settimeout(max(0.001, deadline - time.monotonic()))
        try:
            found = self._socket.recv(1 << 20)
        except TimeoutError:
            raise SilentError(f"{self._what}: no response") from None
        except OSError as error:
            raise self._broken(error) from None
        if not found:
            raise self._broken("the connection was closed")
        self._data += found

    def _broken(self, reason: object) -> BrokenOffError:
        self.is_broken = True
        return BrokenOffError(f"{self._what}: {reason}")

    def close(self) -> None:
        """Close the connection."""
        with contextlib.suppress(OSError, BrokenOffError):
            self._write(frames.frame(0, frames.CLOSE, []))
        self._socket.close()


class SilentError(BrokenOffError):
    """Nothing has arrived in time."""


_SIZE = struct.Struct(">I").unpack_from


def _connected(endpoint: Endpoint) -> socket.socket:
    host, _, port = endpoint.host.partition(":")
    number = int(port) if port else _TLS_PORT if endpoint.tls else _PLAIN_PORT
    plain = socket.create_connection((host, number), timeout=SECONDS)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if not endpoint.tls:
        return plain
    return ssl.create_default_context().wrap_socket(plain, server_hostname=host)


def signature_for(endpoint: Endpoint, audience: str) -> str:
    """Return a shared access signature, signed with the key if none is given."""
    if endpoint.signature is not None:
        return endpoint.signature
    assert endpoint.key is not None
    expiry = int(time.time()) + _TOKEN_SECONDS
    resource = quote_plus(audience)
    digest = hmac.new(endpoint.key.encode(), f"{resource}\n{expiry}".encode(), hashlib.sha256)
    signed = quote_plus(base64.b64encode(digest.digest()))
    name = quote_plus(endpoint.key_name or "")
    return f"SharedAccessSignature sr={resource}&sig={signed}&se={expiry}&skn={name}"


def _error_fields(found: Any) -> tuple[str, str]:
    """Return condition and description of an error in a performative."""
    if found is None:
        return "", "closed by the peer"
    fields = [*found.value, None, None]
    return str(fields[0] or ""), str(fields[1] or "")
