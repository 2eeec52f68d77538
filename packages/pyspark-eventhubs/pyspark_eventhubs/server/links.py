"""Server side of links: readers of partitions, receivers of events, replies."""

import asyncio
import struct
from typing import TYPE_CHECKING, Any

from pyspark_eventhubs.amqp import frames
from pyspark_eventhubs.amqp.values import Described, Symbol, UInt, encode
from pyspark_eventhubs.server import management
from pyspark_eventhubs.server.event_store import Partition
from pyspark_eventhubs.server.shared_state import Place, State

if TYPE_CHECKING:
    from pyspark_eventhubs.server.connection import ServerConnection

STOLEN = "amqp:link:stolen"
BUSY = "com.microsoft:server-busy"
_CREDIT = 5000
_NUMBER = struct.Struct(">BIBBI")
_SIZES = struct.Struct(">II")
_FRAME = struct.Struct(">IBBH")


def error(condition: str, description: str) -> Described:
    """Return an error as a field of a performative."""
    return Described(frames.ERROR, [Symbol(condition), description, None])


def detach(
    wire: "ServerConnection", channel: int, handle: int, condition: str, description: str
) -> None:
    """Close a link with an error."""
    fields = [UInt(handle), True, error(condition, description)]
    wire.say(channel, frames.DETACH, fields)


class ServerLink:
    """The server side of a link."""

    def __init__(self, wire: "ServerConnection", channel: int, handle: int) -> None:
        self._wire = wire
        self._channel = channel
        self._handle = handle

    def flow(self, fields: list[Any]) -> None:
        """Process the peer's flow state."""

    def close(self) -> None:
        """Close the link."""

    def _tell(self, count: int, credit: int) -> None:
        """Send the delivery count and the link credit."""
        session = [
            UInt(0),
            UInt(1 << 20),
            UInt(self._wire.next_id(self._channel, 0)),
            UInt(1 << 20),
        ]
        link = [UInt(self._handle), UInt(count), UInt(credit), UInt(0), False, False, None]
        self._wire.say(self._channel, frames.FLOW, [*session, *link])


class Answers(ServerLink):
    """Link for replies of a node such as ``$management``; always has credit."""

    def send(self, message: bytes) -> None:
        """Send a reply."""
        number = self._wire.next_id(self._channel)
        tag = struct.pack(">I", number & 0xFFFFFFFF)
        fields = [UInt(self._handle), UInt(number), tag, UInt(0), True, False]
        self._wire.say(self._channel, frames.TRANSFER, fields, message)


class Reader(ServerLink):
    """Link for reading a partition.

    Args:
        position: the sequence number of the first event to send.
        epoch: of the receiver; None if it is not exclusive.
    """

    def __init__(
        self,
        wire: "ServerConnection",
        channel: int,
        handle: int,
        state: State,
        place: Place,
        position: int,
        epoch: int | None,
    ) -> None:
        super().__init__(wire, channel, handle)
        self.epoch = epoch
        self.is_stolen = False
        self._state = state
        self._place = place
        self._position = position
        self._credit = 0
        self._count = 0
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        state.counts.receivers += 1
        state.readers.setdefault(place, []).append(self)

    def flow(self, fields: list[Any]) -> None:
        """Process a grant of credit."""
        self._credit = (fields[5] or 0) + (fields[6] or 0) - self._count
        self.pump()
        if fields[8] and self._credit > 0:  # Drained: what is left of the credit is void.
            self._count += self._credit
            self._credit = 0
            self._tell(self._count, self._credit)
        elif fields[9]:
            self._tell(self._count, self._credit)

    def pump(self) -> None:
        """Send available events within the receiver's credit."""
        if self._closed or self._timer is not None:
            return
        partition = self._partition()
        self._position = max(self._position, partition.first)
        most = min(self._credit, partition.end - self._position, self._wire.window(self._channel))
        if partition.rate is not None and most > 0:
            most = 1
            self._timer = asyncio.get_running_loop().call_later(1 / partition.rate, self._again)
        if most > 0:
            at = self._position - partition.first
            self._send(partition.messages[at : at + most])

    def _again(self) -> None:
        self._timer = None
        self.pump()

    def _partition(self) -> Partition:
        hub, _, number = self._place
        return self._state.hubs[hub].partitions[int(number)]

    def _send(self, messages: list[bytes]) -> None:
        faults = self._state.faults
        breaks = faults.reset_after is not None and faults.reset_after < len(messages)
        if breaks:
            messages = messages[: (faults.reset_after or 0) + 1]
        number = self._wire.next_id(self._channel, len(messages))
        encoded = [self._frame(number + at, message) for at, message in enumerate(messages)]
        if breaks:
            faults.reset_after = None
            self._wire.break_off(b"".join(encoded)[:-7])
            return
        if faults.reset_after is not None:
            faults.reset_after -= len(messages)
        self._wire.write(b"".join(encoded))
        self._position += len(messages)
        self._count += len(messages)
        self._credit -= len(messages)
        self._state.counts.delivered += len(messages)

    def _frame(self, number: int, message: bytes) -> bytes:
        """Return the frames of a transfer; large messages have several."""
        head = self._head(number, more=False)
        room = self._wire.max_frame - 8 - len(head)
        parts = [message[at : at + room] for at in range(0, len(message), room)]
        whole = [
            _frame_of(self._channel, self._head(number, more=True), part) for part in parts[:-1]
        ]
        return b"".join([*whole, _frame_of(self._channel, head, parts[-1])])

    def _head(self, number: int, *, more: bool) -> bytes:
        number &= 0xFFFFFFFF
        fields = (
            encode(UInt(self._handle))
            + _NUMBER.pack(0x70, number, 0xA0, 4, number)
            + b"\x70\x00\x00\x00\x00"
            + (b"\x41\x41" if more else b"\x41\x42")
            + b"\x40\x40\x40\x40\x40"
        )
        return b"\x00\x53\x14\xd0" + _SIZES.pack(len(fields) + 4, 11) + fields

    def stolen(self, reason: str) -> None:
        """Close because of another receiver."""
        self._state.counts.stolen += 1
        self.is_stolen = True
        self.close()
        detach(self._wire, self._channel, self._handle, STOLEN, reason)

    def close(self) -> None:
        """Close the link."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        readers = self._state.readers.get(self._place, [])
        if self in readers:
            readers.remove(self)


def _frame_of(channel: int, head: bytes, payload: bytes) -> bytes:
    return _FRAME.pack(8 + len(head) + len(payload), 2, 0, channel) + head + payload


class Taker(ServerLink):
    """Link for incoming messages: events for a hub, or requests to a node."""

    def __init__(
        self,
        wire: "ServerConnection",
        channel: int,
        handle: int,
        state: State,
        address: str,
        answers: dict[str, Answers],
    ) -> None:
        super().__init__(wire, channel, handle)
        self._state = state
        self._address = address
        self._answers = answers
        self._message = bytearray()
        self._first: list[Any] | None = None
        self._count = 0
        self._tell(0, _CREDIT)

    def transfer(self, fields: list[Any], payload: bytes) -> None:
        """Process a message, or a part of one."""
        self._message += payload
        self._first = self._first or fields
        if fields[5]:
            return
        first, message = self._first, bytes(self._message)
        self._first = None
        self._message.clear()
        self._count += 1
        outcome = self._take(message, first[3] or 0)
        if not first[4]:
            ids = [UInt(first[1]), UInt(first[1])]
            self._wire.say(self._channel, frames.DISPOSITION, [True, *ids, True, outcome])
        if self._count % (_CREDIT // 2) == 0:
            self._tell(self._count, _CREDIT)

    def _take(self, message: bytes, format: int) -> Described:
        if len(message) > self._state.most_in_message:
            too_large = error("amqp:link:message-size-exceeded", "The message is too large.")
            return Described(frames.REJECTED, [too_large])
        if self._address.startswith("$"):
            answer = management.answer(self._state, self._address, message)
            self._answers[self._address].send(answer)
            return Described(frames.ACCEPTED, [])
        if self._state.faults.is_busy():
            busy = error(BUSY, "The server is busy. Try again in 4 seconds.")
            return Described(frames.REJECTED, [busy])
        name, _, partition = self._address.partition("/Partitions/")
        number = self._state.hubs[name].store(
            message, format, int(partition) if partition else None
        )
        self._state.pump(name, number)
        return Described(frames.ACCEPTED, [])
