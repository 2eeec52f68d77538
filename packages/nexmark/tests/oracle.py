"""The generator once more, one event and one draw at a time, straight from its description."""

from math import floor

from beam_nexmark.configuration import Configuration
from beam_nexmark.events import Auction, Bid, Person

FIRST_NAMES = "Peter Paul Luke John Saul Vicky Kate Julie Sarah Deiter Walter"
LAST_NAMES = "Shultz Abrams Spencer White Bartels Walton Smith Jones Noris"
CITIES = "Phoenix,Los Angeles,San Francisco,Boise,Portland,Bend,Redmond,Seattle,Kent,Cheyenne"
STATES = "AZ CA ID OR WA WY"


def signed(value, bits):
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def remainder(value, divisor):
    return value % divisor if value >= 0 else -(-value % divisor)


class JavaRandom:
    def __init__(self, seed):
        self.state = (seed ^ 0x5DEECE66D) & ((1 << 48) - 1)

    def next(self, bits):
        self.state = (self.state * 0x5DEECE66D + 0xB) & ((1 << 48) - 1)
        return signed(self.state >> (48 - bits), 32)

    def next_int(self, bound=None):
        if bound is None:
            return self.next(32)
        if bound & -bound == bound:
            return signed(bound * self.next(31) >> 31, 32)
        while True:
            bits = self.next(31)
            value = bits % bound
            if signed(bits - value + (bound - 1), 32) >= 0:
                return value

    def next_long(self):
        return signed((self.next(32) << 32) + self.next(32), 64)

    def next_double(self):
        return ((self.next(26) << 27) + self.next(27)) * 2.0**-53


def next_below(random, bound):
    if bound < 2**31 - 1:
        return random.next_int(bound)
    return abs(remainder(random.next_long(), bound))


def price(random):
    return floor(10.0 ** (random.next_double() * 6) * 100 + 0.5)


def word(random, longest):
    length = 3 + random.next_int(longest - 3)
    return "".join(
        " " if random.next_int(13) == 0 else chr(ord("a") + random.next_int(26))
        for _ in range(length)
    ).strip(" ")


def extra(random, current, average):
    if current > average:
        return ""
    missing = average - current
    delta = floor(missing * 0.2 + 0.5)
    length = missing - delta + (random.next_int(2 * delta) if delta else 0)
    text = ""
    while len(text) < length:
        if len(text) % 6 == 0:
            drawn = random.next_int()
        rest = remainder(drawn, 26)
        text += chr(ord("a") + rest)
        drawn = (drawn - rest) // 26
    return text


class Generator:
    def __init__(self, configuration: Configuration):
        self.configuration = configuration
        self.delay = round(1_000_000 / configuration.event_rate) * configuration.generators

    def events(self):
        """All events, one generator after the other."""
        c = self.configuration
        size = c.events // c.generators
        for generator in range(c.generators):
            last = generator == c.generators - 1
            for number in range(c.events - size * generator if last else size):
                group = c.out_of_order_group_size
                adjusted = number // group * group + number * 953 % group
                yield self.event(generator * size + adjusted, adjusted)

    def timestamp(self, adjusted):
        return self.configuration.base_time + adjusted * self.delay // 1000

    def event(self, event_id, adjusted):
        random = JavaRandom(event_id)
        make = [self.person, *[self.auction] * 3, *[self.bid] * 46][event_id % 50]
        return make(event_id, adjusted, random)

    def last_auction(self, event_id):
        epoch, place = divmod(event_id, 50)
        if place == 0:
            return (epoch - 1) * 3 + 2
        return epoch * 3 + (place - 1 if place <= 3 else 2)

    def next_person(self, event_id, random):
        people = event_id // 50 + 1
        active = min(people, self.configuration.active_people)
        return people - active + random.next_int(active + 10)

    def next_auction(self, event_id, random):
        last = self.last_auction(event_id)
        first = max(last - self.configuration.in_flight_auctions, 0)
        return first + random.next_int(last - first + 11)

    def person(self, event_id, adjusted, random):
        name = random_of(random, FIRST_NAMES.split()) + " " + random_of(random, LAST_NAMES.split())
        email = word(random, 7) + "@" + word(random, 5) + ".com"
        card = " ".join(f"{random.next_int(10000):04d}" for _ in range(4))
        city = random_of(random, CITIES.split(","))
        state = random_of(random, STATES.split())
        size = 8 + len(name) + len(email) + len(card) + len(city) + len(state)
        padding = extra(random, size, self.configuration.average_person_size)
        time = self.timestamp(adjusted)
        return Person(event_id // 50 + 1000, name, email, card, city, state, time, padding)

    def auction(self, event_id, adjusted, random):
        c = self.configuration
        if random.next_int(c.hot_sellers_ratio) > 0:
            seller = event_id // 50 // 100 * 100
        else:
            seller = self.next_person(event_id, random)
        category = 10 + random.next_int(5)
        initial = price(random)
        time = self.timestamp(adjusted)
        horizon = self.timestamp(adjusted + c.in_flight_auctions * 50 // 3) - time
        expires = time + 1 + next_below(random, max(2 * horizon, 1))
        item, description = word(random, 20), word(random, 100)
        reserve = initial + price(random)
        size = 8 + len(item) + len(description) + 40
        return Auction(
            self.last_auction(event_id) + 1000,
            item,
            description,
            initial,
            reserve,
            time,
            expires,
            seller + 1000,
            category,
            extra(random, size, c.average_auction_size),
        )

    def bid(self, event_id, adjusted, random):
        c = self.configuration
        if random.next_int(c.hot_auction_ratio) > 0:
            auction = self.last_auction(event_id) // 100 * 100
        else:
            auction = self.next_auction(event_id, random)
        if random.next_int(c.hot_bidders_ratio) > 0:
            bidder = event_id // 50 // 100 * 100 + 1
        else:
            bidder = self.next_person(event_id, random)
        amount = price(random)
        padding = extra(random, 32, c.average_bid_size)
        return Bid(auction + 1000, bidder + 1000, amount, self.timestamp(adjusted), padding)


def random_of(random, names):
    return names[random.next_int(len(names))]
