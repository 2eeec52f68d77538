"""The rows that travel between the layers of a streaming query.

==========  ========  ====================================================
column      type      meaning
==========  ========  ====================================================
``shard``   int32     whom the row is for; what Spark groups by
``layer``   int32     the layer that the row is for; others hand it on
``round``   int32     when it is to be processed within the micro-batch
``tag``     int32     the port that it belongs to, or one of the tags below
``sender``  int32     the partition of the first layer, or the place of the
                      shard of a later one, that it comes from
``number``  int32     counts what its sender has sent
``more``    int32     how many rows with the rest of the value follow
``value``   binary    rows of a port, or a message, as plain data
==========  ========  ====================================================

A micro-batch consists of *rounds*. A layer processes one after the other: the data of
a round, then its watermark and clock. So one micro-batch can carry many steps of
the watermark, and what they cause, through all layers.

Spark hands the blocks of a shuffle on as they arrive, which is in another order each time. Only one
layer sends rows of a tag, so senders and numbers give them an order that is always the same.

In some queries the rows of a port are pieces (:func:`cut`): Spark can tell by their number then how
much it hands to a worker at once (:mod:`sparkbeam.streaming.batch_limits`).
"""

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from operator import itemgetter
from typing import Any, NamedTuple

import pyarrow as pa

from sparkbeam.wire import plaindata
from sparkbeam.wire.rows import Row

SCHEMA = pa.schema(
    [
        pa.field("shard", pa.int32()),
        pa.field("layer", pa.int32()),
        pa.field("round", pa.int32()),
        pa.field("tag", pa.int32()),
        pa.field("sender", pa.int32()),
        pa.field("number", pa.int32()),
        pa.field("more", pa.int32()),
        pa.field("value", pa.binary()),
    ]
)

DDL = "shard int, layer int, round int, tag int, sender int, number int, more int, value binary"
"""The same as Spark's DDL."""


class Message(NamedTuple):
    """A row; see above."""

    shard: int
    layer: int
    round: int
    tag: int
    sender: int
    number: int
    more: int
    value: bytes


REPORT_TAG = -1
"""A task's metrics and warnings, for the sink."""

TICK_TAG = -2
"""A :class:`Tick`."""

WATERMARKS_TAG = -3
"""A :class:`Watermarks`."""

STATUS_TAG = -4
"""A :class:`Status`, for the sink."""

SEEN_TAG = -5
"""A :class:`Seen`, for the sink."""

FINALIZERS_TAG = -6
"""A :class:`Finalizers`, for the sink."""


@dataclass(frozen=True)
class Round:
    """Where the sources and the clock are at the end of a round.

    Attributes:
        time: processing time, in microseconds since the epoch.
        watermarks: of each source by its tag, in microseconds since the epoch.
    """

    time: int
    watermarks: dict[int, int]


@dataclass(frozen=True)
class Tick:
    """What a micro-batch depends on, beside its data; each shard of each layer gets it.

    Attributes:
        number: counts the ticks of the query.
        rounds: the rounds of the micro-batch.
        start: this is the first micro-batch: Impulses fire.
        draining: splittable DoFns are to end.
        committed: the tokens of tasks that have registered callbacks, and whose micro-batch has
            been committed.
    """

    number: int
    rounds: tuple[Round, ...]
    start: bool = False
    draining: bool = False
    committed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Watermarks:
    """The output watermarks of a shard's stages, for a later layer.

    Attributes:
        shard: the sender.
        rounds: for each round the watermarks in microseconds, by the tag of the port.
    """

    shard: int
    rounds: tuple[dict[int, int], ...]


@dataclass(frozen=True)
class Holder:
    """What a stage keeps that holds its watermark.

    Attributes:
        key: whose it is, in words.
        what: ``timer``, ``window``, or ``state`` where it is neither.
        until: when it lets go, in microseconds; None where that is not known.
        step: the label of its step; empty where that is not known.
    """

    key: str
    what: str
    until: int | None = None
    step: str = ""


@dataclass(frozen=True)
class StageStatus:
    """Where a stage is in a shard, at the end of a micro-batch; times are in microseconds.

    Attributes:
        input_watermark, output_watermark: the two watermarks.
        due: when processing time lets it go on; None where nothing waits for that.
        keys: of how many keys it has state.
        state_bytes: how much state it has: of keys, side inputs, and elements that wait for them.
        holder: what of its keys holds its watermark, the oldest of all; None where nothing does.
    """

    input_watermark: int
    output_watermark: int
    due: int | None = None
    keys: int = 0
    state_bytes: int = 0
    holder: Holder | None = None


@dataclass(frozen=True)
class Status:
    """Where a layer is in a shard, at the end of a micro-batch."""

    layer: int
    shard: int
    stages: dict[str, StageStatus] = field(default_factory=dict)


@dataclass(frozen=True)
class Seen:
    """What a task has read of one of Spark's sources in a micro-batch.

    Attributes:
        tag: of the source.
        newest: the latest timestamp of each partition, in microseconds since the epoch; there
            is at least one.
    """

    tag: int
    newest: dict[str, int]


@dataclass(frozen=True)
class Finalizers:
    """What a task has to do with callbacks of bundle finalizers.

    Attributes:
        kept: the token of those that it has registered; None if there are none.
        called: the tokens of those that it has called.
    """

    kept: str | None = None
    called: tuple[str, ...] = ()


def pack(rows: Sequence[Row]) -> bytes:
    """Rows of one port as one value."""
    return pickle.dumps(rows, pickle.HIGHEST_PROTOCOL)


def unpack(value: bytes) -> list[Row]:
    """The inverse of :func:`pack`."""
    rows: list[Row] = plaindata.loads(value)
    return rows


PIECE_BYTES = 8 << 10
"""A piece of a value has so many bytes, but for the last one."""


def cut(value: bytes) -> list[bytes]:
    """A value in its pieces; there is one at least."""
    starts = range(0, len(value), PIECE_BYTES)
    return [value[start : start + PIECE_BYTES] for start in starts] or [value]


class Joiner:
    """Joins the pieces of values, which come in order."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._next: tuple[int, int, int] | None = None

    def add(self, message: Message) -> bytes | None:
        """Takes a message; its value if it has the last piece of it.

        Raises:
            RuntimeError: it does not go on with the value that is being joined.
        """
        place = message.tag, message.sender, message.more
        if self._next not in (None, place):
            raise RuntimeError(f"{place} has come in the place of the piece {self._next}")
        self._pieces.append(message.value)
        if message.more:
            self._next = message.tag, message.sender, message.more - 1
            return None
        value = b"".join(self._pieces)
        self._pieces.clear()
        self._next = None
        return value

    def end(self) -> None:
        """Called when all messages have been added.

        Raises:
            RuntimeError: there is a value without its last piece.
        """
        if self._next is not None:
            raise RuntimeError(f"the piece {self._next} has not come")


_CONTENTS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (Round, Tick, Watermarks, Holder, StageStatus, Status, Seen, Finalizers)
}


def dump(content: object) -> bytes:
    """A message's content, an object of one of the classes above, as its value."""
    return plaindata.dumps(_plain(content))


def load(value: bytes) -> Any:
    """The inverse of :func:`dump`."""
    return _content(plaindata.loads(value))


def _plain(content: Any) -> Any:
    """The content with a list in the place of each object: the name of its class, its fields."""
    kind = _CONTENTS.get(type(content).__name__)
    if kind is type(content):
        return [kind.__name__, *(_plain(getattr(content, part.name)) for part in fields(kind))]
    if type(content) is tuple:
        return tuple(map(_plain, content))
    if type(content) is dict:
        return {key: _plain(value) for key, value in content.items()}
    assert type(content) is not list, "lists stand for objects"
    return content


def _content(plain: Any) -> Any:
    if type(plain) is list:
        name, *parts = plain
        return _CONTENTS[name](*map(_content, parts))
    if type(plain) is tuple:
        return tuple(map(_content, plain))
    if type(plain) is dict:
        return {key: _content(value) for key, value in plain.items()}
    return plain


def messages(rows: Iterable[Sequence[Any]]) -> Iterator[Message]:
    """Spark's rows as messages."""
    for *numbers, value in rows:
        yield Message._make((*numbers, bytes(value)))


def in_order(messages: Iterable[Message]) -> list[Message]:
    """Messages in the order in which they count, whatever that in which they have come."""
    # Messages without a port may come from several layers; then the value decides.
    return sorted(messages, key=_place)


_place = itemgetter(3, 4, 5, 7)
