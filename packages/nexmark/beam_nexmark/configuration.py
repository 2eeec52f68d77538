"""Configuration of a Nexmark run: generator and queries."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from sparkbeam.common.arguments import shown
from sparkbeam.errors import ConfigurationError

_NOT_PART_OF_RESULTS = frozenset(["log_folder"])
_MAX_RATE = 2_000_000


@dataclass(frozen=True)
class Configuration:
    """The settings of generator and queries; the defaults are those of Beam's Java suite.

    Attributes:
        generators: the number of timelines, all from ``base_time``, among which events are split.
        base_time: the time of each timeline's first event, in ms since the epoch.
        event_rate: the events per second over all timelines.
        out_of_order_group_size: the number of consecutive events of a timeline that are shuffled; 1
            for none.
        hot_auction_ratio: all but one of this many bids are on a hot auction.
        hot_sellers_ratio: all but one of this many auctions are of a hot seller.
        hot_bidders_ratio: all but one of this many bids are by a hot bidder.
        in_flight_auctions: the average number of concurrently open auctions of a timeline.
        active_people: the number of newest people among whom sellers and bidders are chosen.
        average_person_size: the size of a person in bytes, to which ``extra`` pads it.
        window_size: the length of windows, and the gap of query 11's sessions, in seconds.
        window_period: the period of sliding windows, in seconds.
        auction_skip: query 2 selects auctions whose id this divides.
        max_auctions_waiting_time: the time for which query 3 keeps state of a seller, in seconds.
        session_gap: the gap of query 14's sessions, in seconds.
        side_input_rows: the number of rows in the side input of queries 13 and 14.
        max_log_events: the number of events after which query 10 starts another file, and query 11
            emits a session early.
        log_shards: the number of files per window in query 10.
        log_folder: the folder of query 10's files; None writes none.
        key_buckets: the number of keys in queries 15 and 16.

    Raises:
        ConfigurationError: a number is too small or too large.
    """

    events: int = 100_000
    generators: int = 100
    base_time: int = 1_436_918_400_000
    event_rate: int = 10_000
    out_of_order_group_size: int = 1
    hot_auction_ratio: int = 2
    hot_sellers_ratio: int = 4
    hot_bidders_ratio: int = 4
    in_flight_auctions: int = 100
    active_people: int = 1_000
    average_person_size: int = 200
    average_auction_size: int = 500
    average_bid_size: int = 100
    window_size: int = 10
    window_period: int = 5
    auction_skip: int = 123
    max_auctions_waiting_time: int = 600
    session_gap: int = 600
    side_input_rows: int = 500
    max_log_events: int = 100_000
    log_shards: int = 25
    log_folder: str | None = None
    key_buckets: int = 50_000

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "log_folder":
                continue
            least = 0 if field.name in ("base_time", "in_flight_auctions") else 1
            if type(value) is not int or not least <= value < 2**62:
                raise ConfigurationError(
                    f"'{field.name}' is {shown(value)}, but must be a whole number >= {least}."
                )
        if self.event_rate > _MAX_RATE:
            raise ConfigurationError(
                f"'event_rate' is {self.event_rate}, but timestamps allow at most {_MAX_RATE}."
            )

    @classmethod
    def parsed(cls, settings: Mapping[str, str]) -> Self:
        """Return the defaults updated by ``settings``, which are numbers as text by name.

        Raises:
            ConfigurationError: a setting is unknown, or its value is invalid.
        """
        known = [field.name for field in fields(cls) if field.type is int]
        values: dict[str, Any] = {}
        for name, text in settings.items():
            if name not in known:
                raise ConfigurationError(f"Unknown setting {shown(name)}: use {', '.join(known)}.")
            try:
                values[name] = int(text)
            except ValueError as error:
                raise ConfigurationError(
                    f"'{name}' is {shown(text)}, but must be a whole number."
                ) from error
        return cls(**values)

    @property
    def delay(self) -> int:
        """The time between two events of a timeline, in us."""
        return (1_000_000 + self.event_rate // 2) // self.event_rate * self.generators

    @property
    def generator_size(self) -> int:
        """The number of events of each timeline; the last one also has the remainder."""
        return self.events // self.generators

    def as_dict(self) -> dict[str, Any]:
        """Return all settings that affect results, as JSON-compatible data."""
        return {
            name: value for name, value in asdict(self).items() if name not in _NOT_PART_OF_RESULTS
        }
