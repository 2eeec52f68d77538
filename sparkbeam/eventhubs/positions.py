"""Positions in a partition of an event hub, as given by users."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self

from sparkbeam.common.arguments import shown, text, whole_number
from sparkbeam.common.untrusted_json import loaded
from sparkbeam.errors import ConfigurationError

_LARGEST = 2**63 - 1
_START, _END, _OFFSET, _NUMBER, _TIME = "start", "end", "offset", "sequence_number", "enqueued"


@dataclass(frozen=True)
class EventPosition:
    """A position in a partition; created by its class methods.

    Attributes:
        kind: ``start``, ``end``, ``offset``, ``sequence_number`` or ``enqueued``.
        value: an offset, a sequence number, or a time in milliseconds since 1970.
        inclusive: whether reading includes the event at the position.
    """

    kind: str
    value: str | int | None = None
    inclusive: bool = True

    @classmethod
    def start(cls) -> Self:
        """Return the position before the oldest retained event."""
        return cls(_START)

    @classmethod
    def end(cls) -> Self:
        """Return the position behind the newest event at the start of reading."""
        return cls(_END)

    @classmethod
    def offset(cls, offset: str, *, inclusive: bool = True) -> Self:
        """Return the position of the event with an offset."""
        return cls(_OFFSET, text("offset", offset, "use the offset of an event"), inclusive)

    @classmethod
    def sequence_number(cls, number: int, *, inclusive: bool = True) -> Self:
        """Return the position of the event with a sequence number."""
        return cls(
            _NUMBER, whole_number("sequence_number", number, least=0, most=_LARGEST), inclusive
        )

    @classmethod
    def enqueued(cls, time: datetime) -> Self:
        """Return the position of the first event enqueued at or after a time; naive means UTC."""
        if not isinstance(time, datetime):
            raise ConfigurationError(f"enqueued={shown(time)} is not a datetime.")
        zoned = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
        return cls(_TIME, round(zoned.timestamp() * 1000))

    @property
    def number(self) -> int | None:
        """The sequence number of the first event, if the position determines it."""
        if self.kind != _NUMBER:
            return None
        return int(self.value or 0) + (not self.inclusive)

    def text(self) -> str:
        """Return the position as an option of the data source."""
        if self.value is None:
            return self.kind
        exclusive = {} if self.inclusive else {"inclusive": False}
        return json.dumps({self.kind: self.value, **exclusive})

    @classmethod
    def parse(cls, name: str, given: str) -> Self:
        """Parse a position in an option: ``start``, ``end``, or JSON with a kind and a value.

        Raises:
            ConfigurationError: the value is malformed.
        """
        given = given.strip()
        if given in (_START, _END):
            return cls(given)
        try:
            return cls._of(loaded(given, (str, dict)))
        except (ValueError, TypeError, KeyError):
            raise ConfigurationError(
                f"{name}={shown(given)} is not a position: use start, end, "
                '{"sequence_number": 5}, {"offset": "500"} or {"enqueued": '
                '"2030-01-31T00:00:00Z"}.'
            ) from None

    @classmethod
    def _of(cls, fields: Any) -> Self:
        if isinstance(fields, str):
            return cls.parse("", fields)
        inclusive = fields.pop("inclusive", True)
        ((kind, value),) = fields.items()
        if kind == _TIME:
            if isinstance(value, str):
                return cls.enqueued(datetime.fromisoformat(value))
            return cls(_TIME, int(value))
        if kind == _OFFSET:
            return cls.offset(str(value), inclusive=bool(inclusive))
        if kind == _NUMBER:
            return cls.sequence_number(value, inclusive=bool(inclusive))
        raise KeyError(kind)


def parse_all(name: str, given: str) -> dict[str, EventPosition]:
    """Parse positions by partition in an option, ``{"0": "start", "1": {"offset": "9"}}``.

    Raises:
        ConfigurationError: the value is malformed.
    """
    try:
        found = loaded(given)
        return {
            str(int(partition)): EventPosition.parse(name, _as_text(position))
            for partition, position in found.items()
        }
    except ValueError as error:
        if isinstance(error, ConfigurationError):
            raise
        raise ConfigurationError(
            f"{name}={shown(given)} must be JSON with positions by partition, such as "
            f'{{"0": "start"}}.'
        ) from None


def all_as_text(positions: Mapping[int, EventPosition]) -> str:
    """Return positions by partition as an option."""
    return json.dumps(
        {str(number): position.text() for number, position in sorted(positions.items())}
    )


def _as_text(position: Any) -> str:
    return position if isinstance(position, str) else json.dumps(position)
