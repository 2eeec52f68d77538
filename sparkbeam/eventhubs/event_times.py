"""Times as senders write them."""

from datetime import UTC, datetime

_EARLIEST, _LATEST = -(10**13), 10**14
"""In milliseconds: what every part of a pipeline can represent, with room for any sensible time."""


def millis_of(text: str) -> int | None:
    """The milliseconds since 1970 that a text says: as a number of them, or a time as in ISO 8601.

    A time without a zone is UTC. None where the text says none, or one that is thousands of years
    away.
    """
    try:
        millis = int(text)
    except ValueError:
        try:
            found = datetime.fromisoformat(text.strip())
        except ValueError:
            return None
        zoned = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
        millis = round(zoned.timestamp() * 1000)
    return millis if _EARLIEST < millis < _LATEST else None
