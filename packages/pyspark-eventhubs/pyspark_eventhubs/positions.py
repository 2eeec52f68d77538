"""Positions in a partition of an event hub, as given by users."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from pyspark_eventhubs.checks import parsed_json, shown, text, whole_number

_LARGEST = 2**63 - 1
_EPOCH, _MILLISECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(milliseconds=1)
_OLDEST, _NEWEST = "-1", "@latest"
_START, _END, _OFFSET, _NUMBER, _TIME = "start", "end", "offset", "sequence_number", "enqueued"


@dataclass(frozen=True)
class EventPosition:
    """A position in a partition; created by its class methods.

    Attributes:
        kind: ``start``, ``end``, ``offset``, ``sequence_number`` or ``enqueued``.
        value: an offset, a sequence number, or a time in milliseconds since 1970.
        inclusive: whether the event at the position is read, be it the first or the last one.
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
        """Return the position of the event with an offset, or of ``-1`` or ``@latest``."""
        found = text("offset", offset, "use the offset of an event").strip()
        if found in (_OLDEST, _NEWEST):
            return cls(_START if found == _OLDEST else _END)
        return cls(_OFFSET, found, _flag(inclusive))

    @classmethod
    def sequence_number(cls, number: int, *, inclusive: bool = True) -> Self:
        """Return the position of the event with a sequence number."""
        found = whole_number("sequence_number", number, least=0, most=_LARGEST)
        return cls(_NUMBER, found, _flag(inclusive))

    @classmethod
    def enqueued(cls, time: datetime) -> Self:
        """Return the position of the first event enqueued at or after a time; naive means UTC.

        As the end of reading it is the time before which events are read.
        """
        if not isinstance(time, datetime):
            raise ValueError(
                f"enqueued={shown(time)} is not a datetime: use for example "
                "datetime(2030, 1, 31, tzinfo=UTC)."
            )
        zoned = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
        return cls(_TIME, -((_EPOCH - zoned) // _MILLISECOND))

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
            ValueError: the value is malformed.
        """
        given = given.strip()
        if given in (_START, _END):
            return cls(given)
        try:
            return cls._of(parsed_json(given))
        except ValueError as error:
            is_malformed = isinstance(error, json.JSONDecodeError)
            why = f" ({error})" if str(error) and not is_malformed else ""
            raise ValueError(
                f"{name}={shown(given)} is not a position: use start, end, "
                '{"sequence_number": 5}, {"offset": "500"} or {"enqueued": '
                '"2030-01-31T00:00:00Z"}; "inclusive": false excludes the event at a number or '
                f"an offset.{why}"
            ) from None

    @classmethod
    def _of(cls, fields: Any) -> Self:
        if fields in (_START, _END):
            return cls(fields)
        inclusive = fields.pop("inclusive", None) if isinstance(fields, dict) else None
        if not isinstance(fields, dict) or len(fields) != 1:
            raise ValueError
        ((kind, value),) = fields.items()
        if kind == _TIME:
            if inclusive is not None:
                raise ValueError("inclusive is only for sequence numbers and offsets")
            if isinstance(value, str):
                return cls.enqueued(datetime.fromisoformat(value))
            return cls(_TIME, whole_number(_TIME, value, least=0, most=_LARGEST))
        inclusive = True if inclusive is None else inclusive
        if kind == _OFFSET:
            given = str(value) if type(value) is int else value
            return cls.offset(given, inclusive=inclusive)
        if kind == _NUMBER:
            return cls.sequence_number(value, inclusive=inclusive)
        raise ValueError


def parse_all(name: str, given: str) -> dict[str, EventPosition]:
    """Parse positions by partition in an option, ``{"0": "start", "1": {"offset": "9"}}``.

    Raises:
        ValueError: the value is malformed.
    """
    try:
        found = {str(int(partition)): at for partition, at in parsed_json(given).items()}
    except (ValueError, AttributeError):
        raise ValueError(
            f"{name}={shown(given)} must be JSON with positions by partition, such as "
            f'{{"0": "start"}}.'
        ) from None
    return {
        partition: EventPosition.parse(name, at if isinstance(at, str) else json.dumps(at))
        for partition, at in found.items()
    }


def all_as_text(positions: Mapping[int, EventPosition]) -> str:
    """Return positions by partition as an option."""
    return json.dumps(
        {str(number): position.text() for number, position in sorted(positions.items())}
    )


def _flag(inclusive: object) -> bool:
    if not isinstance(inclusive, bool):
        raise ValueError(f"inclusive={shown(inclusive)} must be True or False.")
    return inclusive
