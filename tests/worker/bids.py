"""A record and a coder that tests of columns share."""

from typing import NamedTuple

from apache_beam import coders


class Bid(NamedTuple):
    """An element that a RowCoder knows."""

    user: str
    price: int | None
    ratio: float


class Doubling(coders.Coder):
    """A coder of the user's, which does not give back what it takes."""

    def encode(self, value: int) -> bytes:
        return b"%d" % (2 * value)

    def decode(self, encoded: bytes) -> int:
        return int(encoded)

    def is_deterministic(self) -> bool:
        return True


coders.registry.register_coder(Bid, coders.RowCoder)
