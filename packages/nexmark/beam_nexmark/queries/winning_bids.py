"""Join of each auction with its bids, by a window as long as the auction.

Beam groups by key and window. Here the key is the auction's id. An auction's window reaches from
its start to its close, a bid's window begins at its own time, and windows of bids merge into that
of the auction if they begin before it closes. Thus a group is an auction with all of its timely
bids. It is complete when the watermark passes the auction's close, and no state is kept for longer.
Bids may arrive before their auction; a bid without one, or after its close, stays alone in its
window until that ends.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam import coders
from apache_beam.coders.coders import IntervalWindowCoder
from apache_beam.transforms.window import IntervalWindow, WindowFn
from apache_beam.utils.timestamp import Duration, Timestamp

from beam_nexmark.configuration import Configuration
from beam_nexmark.events import Auction, Bid
from beam_nexmark.generator.event_numbers import AUCTIONS_IN_EPOCH, EPOCH
from beam_nexmark.queries.selection import auctions, bids


class AuctionBid(NamedTuple):
    """An auction and the bid that wins it."""

    auction: Auction
    bid: Bid


class WinningBids(beam.PTransform[beam.PCollection[Any], beam.PCollection[Any]]):
    """AuctionBid of each auction with a winner, emitted at its close.

    The highest bid that reaches the reserve wins; the earliest of equal ones.
    """

    def __init__(self, configuration: Configuration) -> None:
        super().__init__()
        self._window_fn = AuctionWindowFn(_longest_auction(configuration))

    def expand(self, events: beam.PCollection[Any]) -> beam.PCollection[Any]:
        windowed = events | "Until it closes" >> beam.WindowInto(self._window_fn)
        opened = auctions(windowed) | "By id" >> beam.Map(lambda auction: (auction.id, auction))
        placed = bids(windowed) | "By auction" >> beam.Map(lambda bid: (bid.auction, bid))
        return (
            {"auctions": opened, "bids": placed}
            | "Join" >> beam.CoGroupByKey()
            | "Winner" >> beam.FlatMapTuple(_winner).with_output_types(AuctionBid)
        )


class AuctionWindowFn(WindowFn):
    """Assignment of auctions and bids to windows that merge per auction.

    All windows are plain intervals, which every runner supports. An auction's window is shorter
    than a bid's, as a bid waits for longer than any auction lasts; so their length distinguishes
    them.

    Args:
        longest_auction: the maximum duration of an auction, in ms.
    """

    def __init__(self, longest_auction: int) -> None:
        self._wait = Duration(micros=(longest_auction + 1) * 1000)

    def assign(self, assign_context: WindowFn.AssignContext) -> list[IntervalWindow]:
        start, event = assign_context.timestamp, assign_context.element
        if isinstance(event, Auction):
            return [IntervalWindow(start, Timestamp(micros=event.expires * 1000))]
        return [IntervalWindow(start, start + self._wait)]

    def merge(self, merge_context: WindowFn.MergeContext) -> None:
        windows: Iterable[Any] = merge_context.windows
        waiting = [window for window in windows if self._is_bid(window)]
        for auction in windows:
            if not self._is_bid(auction):
                timely = [bid for bid in waiting if bid.start < auction.end]
                waiting = [bid for bid in waiting if bid.start >= auction.end]
                if timely:
                    merge_context.merge([auction, *timely], auction)

    def get_window_coder(self) -> coders.Coder:
        return IntervalWindowCoder()

    def _is_bid(self, window: IntervalWindow) -> bool:
        return bool(window.end - window.start == self._wait)


def _winner(_: int, group: dict[str, Iterable[Any]]) -> Iterator[AuctionBid]:
    for auction in group["auctions"]:
        enough = (bid for bid in group["bids"] if bid.price >= auction.reserve)
        best = max(enough, key=_rank, default=None)
        if best:
            yield AuctionBid(auction, best)


def _rank(bid: Bid) -> tuple[int, int, int]:
    """Return the rank of a bid; the bidder only breaks ties."""
    return bid.price, -bid.date_time, -bid.bidder


def _longest_auction(configuration: Configuration) -> int:
    """Return the maximum duration of an auction, in ms."""
    events = configuration.in_flight_auctions * EPOCH // AUCTIONS_IN_EPOCH
    return max(-(-2 * events * configuration.delay // 1000) + 1, 1)
