"""Events of an auction site: people, auctions and bids.

Times are ms since the epoch, prices are in cents.
"""

import marshal
from abc import ABC
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from apache_beam import coders
from apache_beam.coders import coder_impl


class Person(NamedTuple):
    """A seller or bidder."""

    id: int
    name: str
    email_address: str
    credit_card: str
    city: str
    state: str
    date_time: int
    extra: str


class Auction(NamedTuple):
    """An item under auction."""

    id: int
    item_name: str
    description: str
    initial_bid: int
    reserve: int
    date_time: int
    expires: int
    seller: int
    category: int
    extra: str


class Bid(NamedTuple):
    """A bid for an item."""

    auction: int
    bidder: int
    price: int
    date_time: int
    extra: str


if TYPE_CHECKING:
    Event: TypeAlias = Person | Auction | Bid
else:
    # Beam cannot choose a coder for a union, and a NamedTuple cannot have a base of its own.
    class Event(ABC):  # noqa: B024
        """A Person, Auction or Bid: the type of mixed PCollections."""

    for _kind in (Person, Auction, Bid):
        Event.register(_kind)

KINDS: tuple[type[Any], ...] = (Person, Auction, Bid)
"""Event types, in the order of their tags."""

_TAGS = {kind: tag for tag, kind in enumerate(KINDS)}


class _EventCoderImpl(coder_impl.StreamCoderImpl):
    """A tag and the fields, marshalled in version 2: the last one without references.

    Equal events therefore have equal bytes, however their strings are shared.
    """

    def encode(self, value: Event) -> bytes:
        return marshal.dumps((_TAGS[type(value)], *value), 2)

    def decode(self, encoded: bytes) -> Event:
        fields = marshal.loads(encoded)
        event: Event = tuple.__new__(
            KINDS[fields[0]], fields[1:]
        )  # Like _make, without its checks.
        return event

    def encode_to_stream(self, value: Event, out: Any, nested: bool) -> None:
        out.write(self.encode(value), nested)

    def decode_from_stream(self, stream: Any, nested: bool) -> Event:
        return self.decode(stream.read_all(nested))


class EventCoder(coders.coders.FastCoder):
    """A fast, deterministic coder of mixed events."""

    def _create_impl(self) -> _EventCoderImpl:
        return _EventCoderImpl()

    def is_deterministic(self) -> bool:
        return True

    def to_type_hint(self) -> Any:
        return Event

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))


coders.registry.register_coder(Event, EventCoder)
for _kind in KINDS:
    coders.registry.register_coder(_kind, coders.RowCoder)
