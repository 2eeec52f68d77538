"""Server side of a connection: headers, frames, sessions and their links."""

import asyncio
import contextlib
import re
from typing import Any

from pyspark_eventhubs.amqp import frames
from pyspark_eventhubs.amqp.values import (
    Described,
    Symbol,
    Symbols,
    UByte,
    UInt,
    ULong,
    UShort,
    decode,
)
from pyspark_eventhubs.server.event_store import BadSelectorError
from pyspark_eventhubs.server.links import (
    BUSY,
    STOLEN,
    Answers,
    Reader,
    ServerLink,
    Taker,
    detach,
)
from pyspark_eventhubs.server.management import CBS, MANAGEMENT
from pyspark_eventhubs.server.shared_state import Place, State

_EPOCH = "com.microsoft:epoch"
_READERS = 5
_MAX_FRAME = 1 << 16
_ADDRESS = re.compile(r"([^/]+)/ConsumerGroups/([^/]+)/Partitions/(\d+)")
_TARGET = re.compile(r"([^/]+)(?:/Partitions/(\d+))?")


class _Session:
    """Counters of a session."""

    def __init__(self) -> None:
        self.next_id = 0
        self.last = 1 << 31
        """First transfer beyond the peer's window."""


class ServerConnection(asyncio.Protocol):
    """Connection to one client; ends on malformed input."""

    def __init__(self, state: State, connections: "set[ServerConnection]") -> None:
        self.max_frame = 512
        self._state = state
        self._all = connections
        self._data = bytearray()
        self._headers = 0
        self._sessions: dict[int, _Session] = {}
        self._links: dict[tuple[int, int], ServerLink] = {}
        self._answers: dict[str, Answers] = {}
        self._transport: asyncio.Transport | None = None
        self._beat: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._all.add(self)
        self._state.counts.connections += 1

    def connection_lost(self, error: Exception | None) -> None:
        self._all.discard(self)
        if self._beat is not None:
            self._beat.cancel()
        for link in list(self._links.values()):
            link.close()
        self._links.clear()

    def data_received(self, data: bytes) -> None:
        if self._state.faults.frozen:
            return
        self._data += data
        try:
            self._consume()
        except (ValueError, TypeError, IndexError, KeyError, AttributeError):
            if self._transport is not None:
                self._transport.close()

    def write(self, data: bytes) -> None:
        """Send encoded frames."""
        if self._transport is not None and not self._state.faults.frozen:
            self._transport.write(data)

    def say(self, channel: int, code: int, fields: list[Any], payload: bytes = b"") -> None:
        """Send a frame."""
        self.write(frames.frame(channel, code, fields, payload))

    def window(self, channel: int) -> int:
        """Return the incoming window of the peer's session, in transfers."""
        session = self._sessions[channel]
        return session.last - session.next_id

    def next_id(self, channel: int, count: int = 1) -> int:
        """Allocate delivery ids; return the first one."""
        session = self._sessions[channel]
        session.next_id += count
        return session.next_id - count

    def break_off(self, data: bytes) -> None:
        """Send part of a frame and reset the connection."""
        if self._transport is not None:
            self._transport.write(data)
            self._transport.close()

    def _consume(self) -> None:
        while True:
            if self._headers in (0, 2):
                if len(self._data) < 8:
                    return
                self._header(bytes(self._data[:8]))
                del self._data[:8]
                continue
            found = frames.split(self._data)
            if found is None:
                return
            channel, body = found
            if body:
                performative, end = decode(body)
                code = int(performative.code)
                fields = frames.padded(code, list(performative.value))
                self._handle(channel, code, fields, body[end:])

    def _header(self, header: bytes) -> None:
        if header == frames.SASL_HEADER:
            self.write(header)
            mechanisms = Symbols(map(Symbol, ("MSSBCBS", "ANONYMOUS", "PLAIN", "EXTERNAL")))
            self.say(0, frames.SASL_MECHANISMS, [mechanisms])
            self._headers = 1
        elif header == frames.HEADER:
            self.write(header)
            self._headers = 3
        else:
            raise ValueError("the header is not that of AMQP 1.0")

    def _handle(self, channel: int, code: int, fields: list[Any], payload: bytes) -> None:
        match code:
            case frames.SASL_INIT:
                self.say(0, frames.SASL_OUTCOME, [UByte(0), None])
                self._headers = 2
            case frames.OPEN:
                self._open(fields)
            case frames.BEGIN:
                self._begin(channel, fields)
            case frames.ATTACH:
                self._attach(channel, fields)
            case frames.FLOW:
                self._flow(channel, fields)
            case frames.TRANSFER:
                link = self._links.get((channel, fields[0]))
                if isinstance(link, Taker):  # Else it has been refused, and its sender will know.
                    link.transfer(fields, payload)
            case frames.DETACH:
                self._drop(channel, fields[0])
            case frames.END:
                for key in [key for key in self._links if key[0] == channel]:
                    self._links.pop(key).close()
                self.say(channel, frames.END, [])
            case frames.CLOSE:
                self.say(0, frames.CLOSE, [])
                if self._transport is not None:
                    self._transport.close()

    def _open(self, fields: list[Any]) -> None:
        self.max_frame = min(fields[2] or _MAX_FRAME, _MAX_FRAME)
        limits = [UInt(_MAX_FRAME), UShort(4999), UInt(240_000)]
        self.say(0, frames.OPEN, ["sparkbeam", None, *limits])
        if fields[4]:
            self._keep_alive(fields[4] / 2000)

    def _keep_alive(self, seconds: float) -> None:
        """Send empty frames periodically, as requested by the peer."""
        loop = asyncio.get_running_loop()
        self._beat = loop.call_later(seconds, self._keep_alive, seconds)
        self.write(b"\x00\x00\x00\x08\x02\x00\x00\x00")

    def _begin(self, channel: int, fields: list[Any]) -> None:
        session = _Session()
        session.last = fields[2] if fields[2] is not None else session.last
        self._sessions[channel] = session
        numbers = [UInt(0), UInt(1 << 20), UInt(1 << 20), UInt(4095)]
        self.say(channel, frames.BEGIN, [UShort(channel), *numbers])

    def _flow(self, channel: int, fields: list[Any]) -> None:
        session = self._sessions[channel]
        session.last = (fields[0] or 0) + (fields[1] or 0)
        if fields[4] is not None:
            link = self._links.get((channel, fields[4]))
            if link is not None:
                link.flow(fields)
            return
        for (own, _), link in list(self._links.items()):
            if own == channel and isinstance(link, Reader):
                link.pump()

    def _drop(self, channel: int, handle: int) -> None:
        link = self._links.pop((channel, handle), None)
        if link is not None:
            link.close()
            if not (isinstance(link, Reader) and link.is_stolen):  # Then that is the answer.
                self.say(channel, frames.DETACH, [UInt(handle), True, None])

    def _attach(self, channel: int, fields: list[Any]) -> None:
        name, handle, receives = fields[0], fields[1], fields[2]
        source, target = _terminus(fields[5], 11), _terminus(fields[6], 7)
        terminus = source if receives else target
        address = _path(terminus.value[0] if terminus is not None else None)
        answer = [name, UInt(handle), not receives, UByte(fields[3] or 0), UByte(fields[4] or 0)]
        count = UInt(0) if receives else None
        size = ULong(self._state.most_in_message)
        self.say(channel, frames.ATTACH, [*answer, source, target, None, None, count, size])
        try:
            link = self._link(channel, handle, address, source if receives else None, fields[13])
        except _RefusedError as refusal:
            detach(self, channel, handle, *refusal.args)
            return
        self._links[channel, handle] = link

    def _link(
        self, channel: int, handle: int, address: str, source: Described | None, properties: Any
    ) -> ServerLink:
        if source is None:
            if address not in (CBS, MANAGEMENT):
                self._check_target(address)
            return Taker(self, channel, handle, self._state, address, self._answers)
        if address in (CBS, MANAGEMENT):
            self._answers[address] = Answers(self, channel, handle)
            return self._answers[address]
        if self._state.faults.is_busy():
            raise _RefusedError(BUSY, "The server is busy. Try again in 4 seconds.")
        place, position = self._position(address, source)
        epoch = (properties or {}).get(_EPOCH)
        self._make_way(place, epoch)
        return Reader(self, channel, handle, self._state, place, position, epoch)

    def _check_target(self, address: str) -> None:
        found = _TARGET.fullmatch(address)
        hub = self._state.hubs.get(found.group(1)) if found else None
        if found is None or hub is None or int(found.group(2) or 0) >= len(hub.partitions):
            raise _RefusedError("amqp:not-found", "The event hub or partition does not exist.")

    def _position(self, address: str, source: Described) -> tuple[Place, int]:
        found = _ADDRESS.fullmatch(address)
        hub = self._state.hubs.get(found.group(1)) if found else None
        if found is None or hub is None or int(found.group(3)) >= len(hub.partitions):
            raise _RefusedError("amqp:not-found", "The event hub or partition does not exist.")
        filters = list((source.value[7] or {}).values())
        selector = filters[0].value if filters else None
        place = (found.group(1), found.group(2), found.group(3))
        try:
            return place, hub.partitions[int(found.group(3))].position(selector)
        except BadSelectorError as error:
            raise _RefusedError("com.microsoft:argument-error", f"{error}.") from None

    def _make_way(self, place: Place, epoch: int | None) -> None:
        """Disconnect the receivers that a new one replaces.

        Raises:
            _RefusedError: the new receiver is not allowed.
        """
        others = self._state.readers.setdefault(place, [])
        highest = max((link.epoch for link in others if link.epoch is not None), default=None)
        if highest is not None and (epoch is None or epoch < highest):
            raise _RefusedError(STOLEN, f"A receiver with the epoch {highest} exists.")
        if epoch is not None:
            for other in list(others):
                other.stolen(f"A new receiver with the epoch {epoch} was created.")
        elif len(others) >= _READERS:
            reason = f"A consumer group has at most {_READERS} receivers of a partition."
            raise _RefusedError("amqp:resource-limit-exceeded", reason)


class _RefusedError(Exception):
    """Refusal of a link: condition and description."""


def _terminus(found: Any, length: int) -> Described | None:
    if found is None:
        return None
    fields = list(found.value)
    return Described(found.code, fields + [None] * (length - len(fields)))


def _path(address: Any) -> str:
    if isinstance(address, bytes):
        with contextlib.suppress(UnicodeDecodeError):
            address = address.decode()
    return re.sub(r"^\w+://[^/]+/", "", str(address or "")).strip("/")
