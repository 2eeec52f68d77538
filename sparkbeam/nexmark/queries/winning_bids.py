"""Joins each auction with its bids by a window that lasts as long as the auction.

Beam groups by key and window. Here the key is the auction's id, and the windows are
made to fit the question: an auction is in the window from its start to its close, a bid
in one from its own time on, and windows of bids merge into that of the auction if they
begin before it closes. So a group is an auction with all of its timely bids, it is
complete when the watermark passes the auction's close, and nothing is kept for longer.
Bids may come before their auction; a bid without one, or after its close, stays alone in
its own window and is gone when that ends.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam import coders
from apache_beam.coders import coder_impl
from apache_beam.transforms.window import IntervalWindow, WindowFn
from apache_beam.utils.timestamp import Duration, Timestamp

from sparkbeam.nexmark.configuration import Configuration
from sparkbeam.nexmark.generator.numbers import AUCTIONS_IN_EPOCH, EPOCH
from sparkbeam.nexmark.model import Auction, Bid, Event
from sparkbeam.nexmark.queries.selection import is_person


class AuctionBid(NamedTuple):
    """An auction and the bid that wins it."""

    auction: Auction
    bid: Bid


class WinningBids(beam.PTransform):
    """From events to an AuctionBid, at its close, for each auction that somebody wins.

    The highest bid wins that is not below the reserve; of several such, the earliest.
    """

    def __init__(self, configuration: Configuration) -> None:
        super().__init__()
        self._window_fn = AuctionWindowFn(2 * _expected_duration(configuration))

    def expand(self, events: beam.PCollection) -> beam.PCollection:
        return (
            events
            | "Auctions and bids" >> beam.Filter(lambda event: not is_person(event))
            | "Until it closes" >> beam.WindowInto(self._window_fn)
            | "By auction" >> beam.Map(_by_auction).with_output_types(tuple[int, Event])
            | "Group" >> beam.GroupByKey()
            | "Winner" >> beam.FlatMapTuple(_winner).with_output_types(AuctionBid)
        )


class AuctionWindow(IntervalWindow):
    """The time of an auction, or the time in which a bid waits for one.

    Attributes:
        is_auction: which of the two.
    """

    def __init__(self, start: Timestamp, end: Timestamp, is_auction: bool) -> None:
        super().__init__(start, end)
        self.is_auction = is_auction

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, AuctionWindow)
            and self.is_auction == other.is_auction
            and self.start == other.start
            and self.end == other.end
        )

    def __hash__(self) -> int:
        return hash((self.start, self.end, self.is_auction))

    def __reduce__(self) -> tuple[Any, ...]:
        return AuctionWindow, (self.start, self.end, self.is_auction)


class AuctionWindowFn(WindowFn):
    """Puts auctions and bids into windows that merge per auction.

    Args:
        patience: how long a bid waits for its auction, in ms.
    """

    def __init__(self, patience: int) -> None:
        self._patience = Duration.of(patience / 1000)

    def assign(self, assign_context: WindowFn.AssignContext) -> list[AuctionWindow]:
        start, event = assign_context.timestamp, assign_context.element
        if isinstance(event, Auction):
            return [AuctionWindow(start, Timestamp(micros=event.expires * 1000), True)]
        return [AuctionWindow(start, start + self._patience, False)]

    def merge(self, merge_context: WindowFn.MergeContext) -> None:
        waiting = [window for window in merge_context.windows if not window.is_auction]
        for auction in merge_context.windows:
            if auction.is_auction:
                timely = [bid for bid in waiting if bid.start < auction.end]
                waiting = [bid for bid in waiting if bid.start >= auction.end]
                if timely:
                    merge_context.merge([auction, *timely], auction)

    def get_window_coder(self) -> coders.Coder:
        return AuctionWindowCoder()


class _AuctionWindowCoderImpl(coder_impl.StreamCoderImpl):
    def __init__(self) -> None:
        self._interval = coders.IntervalWindowCoder().get_impl()

    def encode_to_stream(self, value: AuctionWindow, out: Any, nested: bool) -> None:
        self._interval.encode_to_stream(value, out, True)
        out.write_byte(value.is_auction)

    def decode_from_stream(self, stream: Any, nested: bool) -> AuctionWindow:
        interval = self._interval.decode_from_stream(stream, True)
        return AuctionWindow(interval.start, interval.end, bool(stream.read_byte()))


class AuctionWindowCoder(coders.coders.FastCoder):
    """The interval, then what it is the time of."""

    def _create_impl(self) -> _AuctionWindowCoderImpl:
        return _AuctionWindowCoderImpl()

    def is_deterministic(self) -> bool:
        return True

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))


def _by_auction(event: Any) -> tuple[int, Any]:
    return (event.id if isinstance(event, Auction) else event.auction), event


def _winner(_: int, group: Iterable[Event]) -> Iterator[AuctionBid]:
    for auction in [event for event in group if isinstance(event, Auction)]:
        bids = (bid for bid in group if isinstance(bid, Bid) and bid.price >= auction.reserve)
        best = max(bids, key=_rank, default=None)
        if best:
            yield AuctionBid(auction, best)


def _rank(bid: Bid) -> tuple[int, int, int]:
    """Which of two bids wins; the bidder only decides if nothing else does."""
    return bid.price, -bid.date_time, -bid.bidder


def _expected_duration(configuration: Configuration) -> int:
    """How long an auction takes on average, in ms; at least 1."""
    between_auctions = configuration.delay * EPOCH // AUCTIONS_IN_EPOCH
    return max(-(-between_auctions * configuration.in_flight_auctions // 1000), 1)
