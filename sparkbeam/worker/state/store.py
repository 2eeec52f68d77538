"""A map of bytes in Spark's state store, with one call per access or many accesses at once.

Spark's Python client sends a request and waits for its answer, 70 to 140 µs for each. The protocol
does not require that: the server answers in the order of the requests, so that many can be in
flight. :class:`PipelinedSparkMap` uses that through private parts of the client, which it names in
one place; :class:`SparkMap` needs none of them.
"""

import struct
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from pyspark.errors import PySparkRuntimeError

from sparkbeam.upstream.spark import state_client


class ByteMap(Protocol):
    """Values by keys. Any bytes may be a key; an empty value is not a missing one."""

    def get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of keys, in order; None for a missing key."""

    def put(self, items: Mapping[bytes, bytes]) -> None:
        """Set or replace the values of keys."""

    def delete(self, keys: Iterable[bytes]) -> None:
        """Remove keys; missing keys do no harm."""


class MemoryMap:
    """A map in memory."""

    def __init__(self) -> None:
        self.entries: dict[bytes, bytes] = {}

    def get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return [self.entries.get(key) for key in keys]

    def put(self, items: Mapping[bytes, bytes]) -> None:
        self.entries.update(items)

    def delete(self, keys: Iterable[bytes]) -> None:
        for key in keys:
            self.entries.pop(key, None)


class SparkMap:
    """A map state of Spark with one binary column for the key and one for the value.

    Args:
        map_state: the result of ``handle.getMapState(name, "key binary", "value binary")``. It
            belongs to the grouping key whose rows are being processed.
    """

    def __init__(self, map_state: Any) -> None:
        self._state = map_state

    def get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        get = self._state.getValue
        found = (get((key,)) for key in keys)
        return [None if row is None else bytes(row[0]) for row in found]

    def put(self, items: Mapping[bytes, bytes]) -> None:
        for key, value in items.items():
            self._state.updateValue((key,), (value,))

    def delete(self, keys: Iterable[bytes]) -> None:
        for key in keys:
            self._state.removeKey((key,))


class PipelinedSparkMap:
    """A :class:`SparkMap` with many requests in flight at once.

    Requests in flight are bounded, so that neither side waits for the other to read: small
    requests with large answers fit into the socket's buffers, and large requests have
    answers of a few bytes.

    Raises:
        AttributeError: at construction; the client is not as this class knows it.
    """

    # The smallest buffers are macOS's, 8 KiB; Linux counts 768 bytes for each small message.
    _REQUESTS = 128
    _GET_BYTES = 8 << 10
    _PUT_BYTES = 1 << 20

    def __init__(self, map_state: Any) -> None:
        import pyspark.sql.streaming.proto.StateMessage_pb2 as messages

        self._name, self._file, serializer = state_client(map_state)
        self._dumps, self._loads = serializer.dumps, serializer.loads
        self._request = messages.StateRequest
        self._response = messages.StateResponse

    def get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        def fill(call: Any, key: bytes) -> None:
            call.getValue.userKey = self._dumps((key,))

        loads = self._loads
        answers = self._ask(keys, fill, self._GET_BYTES)
        return [bytes(loads(answer)[0]) if answer else None for answer in answers]

    def put(self, items: Mapping[bytes, bytes]) -> None:
        def fill(call: Any, item: tuple[bytes, bytes]) -> None:
            call.updateValue.userKey = self._dumps((item[0],))
            call.updateValue.value = self._dumps((item[1],))

        self._ask(items.items(), fill, self._PUT_BYTES)

    def delete(self, keys: Iterable[bytes]) -> None:
        def fill(call: Any, key: bytes) -> None:
            call.removeKey.userKey = self._dumps((key,))

        self._ask(keys, fill, self._GET_BYTES)

    def _ask(
        self, items: Iterable[Any], fill: Callable[[Any, Any], None], most: int
    ) -> list[bytes]:
        """Return the answers to a request per item, reading ahead at most this many bytes."""
        write, name, new = self._file.write, self._name, self._request
        under_way: deque[int] = deque()
        ahead = 0
        answers: list[bytes] = []
        for item in items:
            request = new()
            call = request.stateVariableRequest.mapStateCall
            call.stateName = name
            fill(call, item)
            message = request.SerializeToString()
            size = len(message)
            if under_way and (len(under_way) >= self._REQUESTS or ahead + size > most):
                self._file.flush()
                while len(under_way) > self._REQUESTS // 2 or (
                    under_way and ahead + size > most // 2
                ):
                    ahead -= under_way.popleft()
                    self._receive(answers, len(under_way))
            write(_HEADER.pack(0, size))
            write(message)
            under_way.append(size)
            ahead += size
        self._file.flush()
        while under_way:
            under_way.popleft()
            self._receive(answers, len(under_way))
        return answers

    def _receive(self, answers: list[bytes], more: int) -> None:
        """Add the next answer.

        Raises:
            PySparkRuntimeError: it is a failure. The other answers have been read then, so
                that the client can go on.
        """
        response = self._read()
        if response.statusCode:
            for _ in range(more):
                self._read()
            raise PySparkRuntimeError(f"Spark's state store failed: {response.errorMessage}")
        answers.append(response.value)

    def _read(self) -> Any:
        head = self._file.read(_LENGTH.size)
        if len(head) < _LENGTH.size:
            raise EOFError("Spark closed the connection to its state store")
        return self._response.FromString(self._file.read(_LENGTH.unpack(head)[0]))


_HEADER = struct.Struct("!ii")  # Version of the protocol, length of the message.
_LENGTH = struct.Struct("!i")


def spark_map(map_state: Any) -> ByteMap:
    """Return the fastest map over a map state that this PySpark version allows."""
    try:
        return PipelinedSparkMap(map_state)
    except (AttributeError, ImportError):
        return SparkMap(map_state)
