"""Rows between the layers of a streaming query.

==========  ========  ====================================================
column      type      meaning
==========  ========  ====================================================
``shard``   int32     the receiver; Spark's grouping key
``layer``   int32     the layer of the receiver; others pass it on
``round``   int32     the round within the micro-batch
``tag``     int32     the port, or one of the tags below
``sender``  int32     the partition of the first layer, or the index of the
                      shard of a later one
``number``  int32     running number of the sender
``value``   binary    rows of a port, or a message, as plain data
==========  ========  ====================================================

A micro-batch consists of *rounds*. A layer processes one after the other: the data of a round, then
its watermark and clock. So one micro-batch can carry many watermark steps and their effects through
all layers.

Spark passes on the blocks of a shuffle in order of arrival, which varies. The rows of a tag come
from one layer only, so senders and numbers define a fixed order.
"""

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from operator import itemgetter
from typing import Any, NamedTuple

import pyarrow as pa

from sparkbeam.wire import plaindata
from sparkbeam.wire.rows import Row

DDL = "shard int, layer int, round int, tag int, sender int, number int, value binary"
"""The schema as Spark's DDL."""


class Message(NamedTuple):
    """A row; see above."""

    shard: int
    layer: int
    round: int
    tag: int
    sender: int
    number: int
    value: bytes


SCHEMA = pa.schema([*((name, pa.int32()) for name in Message._fields[:-1]), ("value", pa.binary())])

REPORT_TAG = -1
"""Metrics and warnings of a task, for the sink."""

TICK_TAG = -2
"""A :class:`Tick`."""

WATERMARKS_TAG = -3
"""A :class:`Watermarks`."""

STATUS_TAG = -4
"""A :class:`ShardStatus`, for the sink."""

SEEN_TAG = -5
"""A :class:`Seen`, for the sink."""

FINALIZERS_TAG = -6
"""A :class:`Finalizers`, for the sink."""


@dataclass(frozen=True)
class Round:
    """Positions of the sources and the clock at the end of a round.

    Attributes:
        time: processing time, in microseconds since the epoch.
        watermarks: of each source by its tag, in microseconds since the epoch.
    """

    time: int
    watermarks: dict[int, int]


@dataclass(frozen=True)
class Tick:
    """Inputs of a micro-batch besides its data; sent to each shard of each layer.

    Attributes:
        rounds: of the micro-batch.
        start: this is the first micro-batch: Impulses fire.
        committed: tokens of tasks with registered callbacks whose micro-batch has been committed.
        until: when the run began, if it processes only what is there; splittable DoFns that have
            asked for a later time go on in the next one.
        resuming: such a run begins: splittable DoFns go on, whatever time they have asked for.
    """

    number: int
    rounds: tuple[Round, ...]
    start: bool = False
    draining: bool = False
    committed: tuple[str, ...] = ()
    until: int | None = None
    resuming: bool = False


@dataclass(frozen=True)
class Watermarks:
    """Output watermarks of a shard's stages, for a later layer.

    Attributes:
        rounds: for each round the watermarks in microseconds, by the tag of the port.
    """

    shard: int
    rounds: tuple[dict[int, int], ...]


@dataclass(frozen=True)
class Holder:
    """Item of a stage's state that holds its watermark.

    Attributes:
        what: ``timer``, ``window``, or ``state``.
        until: the end of the hold, in microseconds; None if unknown.
        step: the label of its step; empty if unknown.
    """

    key: str
    what: str
    until: int | None = None
    step: str = ""


@dataclass(frozen=True)
class StageStatus:
    """Status of a stage in a shard at the end of a micro-batch; times are in microseconds.

    Attributes:
        due: the next timer in processing time; None without one.
        state_bytes: the size of its state: of keys, side inputs, and elements that wait for them.
        holder: the oldest hold of its keys; None without one.
        waits: what it has read waits for the next micro-batch.
    """

    input_watermark: int
    output_watermark: int
    due: int | None = None
    keys: int = 0
    state_bytes: int = 0
    holder: Holder | None = None
    waits: bool = False


@dataclass(frozen=True)
class ShardStatus:
    """Status of a layer in a shard at the end of a micro-batch."""

    layer: int
    shard: int
    stages: dict[str, StageStatus] = field(default_factory=dict)


@dataclass(frozen=True)
class Seen:
    """Timestamps that a task has read from a Spark source in a micro-batch.

    Attributes:
        newest: the latest timestamp of each partition, in microseconds since the epoch; not empty.
    """

    tag: int
    newest: dict[str, int]


@dataclass(frozen=True)
class Finalizers:
    """Bundle finalizer callbacks of a task.

    Attributes:
        kept: the token of the registered ones; None if there are none.
        called: the tokens of the called ones.
    """

    kept: str | None = None
    called: tuple[str, ...] = ()


def pack(rows: Sequence[Row]) -> bytes:
    """Serialize rows of one port."""
    return pickle.dumps(rows, pickle.HIGHEST_PROTOCOL)


def unpack(value: bytes) -> list[Row]:
    """Parse the result of :func:`pack`."""
    rows: list[Row] = plaindata.loads(value)
    return rows


_CONTENTS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (Round, Tick, Watermarks, Holder, StageStatus, ShardStatus, Seen, Finalizers)
}


def dump(content: object) -> bytes:
    """Serialize a message's content, an object of one of the classes above."""
    return plaindata.dumps(_plain(content))


def load(value: bytes) -> Any:
    """Parse the result of :func:`dump`."""
    return _content(plaindata.loads(value))


def _plain(content: Any) -> Any:
    """Replace each object by a list: the name of its class, its fields."""
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
    """Convert Spark's rows to messages."""
    for *numbers, value in rows:
        yield Message._make((*numbers, bytes(value)))


def in_order(messages: Iterable[Message]) -> list[Message]:
    """Sort messages into their fixed order."""
    # Messages without a port may come from several layers; then the value decides.
    return sorted(messages, key=_place)


_place = itemgetter(3, 4, 5, 6)
