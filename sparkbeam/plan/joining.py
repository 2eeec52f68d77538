"""What a pipeline says of a join that Spark may do: the payload of its transform."""

import json
from dataclasses import dataclass
from typing import Self

JOIN_URN = "sparkbeam:join:v1"
"""A composite whose inputs :data:`LEFT` and :data:`RIGHT` are pairs of key and value.

Its output are triples of a key and an element of each side, or None in the place of one that there
is not. Its payload is a :class:`JoinSpec`. Its parts are a GroupByKey and what goes with it.
"""

LEFT, RIGHT = "left", "right"

HOWS = ("inner", "left", "right", "outer", "semi", "anti")

AUTO, NEVER = "auto", "never"


@dataclass(frozen=True)
class JoinSpec:
    """How two sides are joined.

    Attributes:
        how: one of :data:`HOWS`.
        broadcast: ``left`` or ``right`` for the side that goes to all tasks of the other, ``auto``
            where Spark decides by the sizes that it finds, ``never`` for neither.
    """

    how: str
    broadcast: str = AUTO

    @property
    def keeps_right(self) -> bool:
        """Whether anything of the right side comes out."""
        return self.how not in ("semi", "anti")

    def pack(self) -> bytes:
        """As a payload."""
        return json.dumps([self.how, self.broadcast]).encode()

    @classmethod
    def unpack(cls, payload: bytes) -> Self:
        """The inverse of :meth:`pack`.

        Raises:
            ValueError: the payload is damaged.
        """
        how, broadcast = json.loads(payload)
        if how not in HOWS or broadcast not in (AUTO, NEVER, LEFT, RIGHT):
            raise ValueError("This is no join.")
        return cls(how, broadcast)
