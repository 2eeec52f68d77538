"""Payload of the transform of a join that Spark may execute."""

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

_KEPT_WHOLE = {
    "inner": (),
    "left": (LEFT,),
    "right": (RIGHT,),
    "outer": (LEFT, RIGHT),
    "semi": (LEFT,),
    "anti": (LEFT,),
}
"""Sides whose elements come out, or do not, whatever the other side has."""


def may_be_broadcast(how: str, side: str) -> bool:
    """Return whether each task may join a part of the other side with all of this side."""
    return side not in _KEPT_WHOLE[how]


def needs_partners(how: str, side: str) -> bool:
    """Return whether elements of a side without a partner have no effect on the result."""
    return side not in _KEPT_WHOLE[how] or (how == "semi" and side == LEFT)


@dataclass(frozen=True)
class JoinSpec:
    """Specification of the join of two sides.

    Attributes:
        how: one of :data:`HOWS`.
        broadcast: ``left`` or ``right`` for the side that goes to all tasks of the other, ``auto``
            if Spark decides by the sizes that it finds, ``never`` for neither.
    """

    how: str
    broadcast: str = AUTO

    @property
    def keeps_right(self) -> bool:
        """True if the results contain anything of the right side."""
        return self.how not in ("semi", "anti")

    def pack(self) -> bytes:
        """Encode it as a payload."""
        return json.dumps([self.how, self.broadcast]).encode()

    @classmethod
    def unpack(cls, payload: bytes) -> Self:
        """Return the inverse of :meth:`pack`.

        Raises:
            ValueError: the payload is damaged.
        """
        how, broadcast = json.loads(payload)
        if how not in HOWS or broadcast not in (AUTO, NEVER, LEFT, RIGHT):
            raise ValueError("This is not a join.")
        return cls(how, broadcast)
