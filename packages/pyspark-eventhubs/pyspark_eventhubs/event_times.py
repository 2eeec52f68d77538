"""Parsing of times written by senders."""

from datetime import UTC, datetime

_EARLIEST, _LATEST = -(10**13), 10**14
"""Maximum absolute time in milliseconds, which all parts of a pipeline can represent."""


def millis_of(text: str) -> int | None:
    """Return the milliseconds since 1970 in a text: a number of them, or an ISO 8601 time.

    A time without a zone is UTC. None if the text is not a time, or thousands of years away.
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
