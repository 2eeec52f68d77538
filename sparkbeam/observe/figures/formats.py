"""Formats of single figures, shared by all views."""

from datetime import UTC, date, datetime
from unicodedata import east_asian_width

from apache_beam.utils.timestamp import MAX_TIMESTAMP, Timestamp

from sparkbeam.common.display_text import line
from sparkbeam.common.secret_patterns import hidden

_CUT = "..."
_UNKNOWN = "-"
_END = "end"
_KILO = 1000


def joined(*parts: str) -> str:
    """Join the parts that are not empty."""
    return ", ".join(filter(None, parts))


def counted(count: int, noun: str) -> str:
    """Format a number of things, such as 1 task or 1,200 tasks."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def duration(seconds: float) -> str:
    """Format a duration, such as 3.2 s, 4:05 min or 1:02:03 h."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes}:{rest:02} min"
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02} h"


def size(count: int) -> str:
    """Format bytes, such as 512 B or 3.4 MB."""
    if count < _KILO:
        return f"{count} B"
    amount = float(count)
    for unit in ("kB", "MB", "GB"):
        amount /= _KILO
        if amount < _KILO:
            return f"{amount:.1f} {unit}"
    return f"{amount / _KILO:.1f} TB"


def moment(watermark: Timestamp | None, today: date | None = None) -> str:
    """Format a watermark in UTC: the time, with the date unless it is today."""
    if watermark is None:
        return _UNKNOWN
    if watermark >= MAX_TIMESTAMP:
        return _END
    try:
        found = watermark.to_utc_datetime().replace(microsecond=0)
    except (OverflowError, ValueError):
        return _UNKNOWN  # It is in a year that Python does not know.
    is_today = found.date() == (today or datetime.now(UTC).date())
    return f"{found:%H:%M:%S}" if is_today else f"{found:%Y-%m-%d %H:%M:%S}"


def iso_time(watermark: Timestamp | None) -> str | None:
    """Format a watermark in ISO 8601, ``end`` at the end of time; None before the first."""
    if watermark is None:
        return None
    if watermark >= MAX_TIMESTAMP:
        return _END
    try:
        return str(watermark.to_rfc3339())
    except (OverflowError, ValueError):
        return str(watermark.micros)  # Its year is beyond Python's range.


def shortened(text: str, width: int) -> str:
    """Shorten ``text`` to ``width`` columns in the middle, as the ends are most telling."""
    text = line(hidden(text))
    columns = [2 if east_asian_width(character) in "WF" else 1 for character in text]
    if sum(columns) <= width:
        return text
    first, last, room = 0, len(text), width - len(_CUT)
    while first < last:
        take_first = sum(columns[:first]) <= sum(columns[last:])
        room -= columns[first] if take_first else columns[last - 1]
        if room < 0:
            break
        first, last = (first + 1, last) if take_first else (first, last - 1)
    return text[:first] + _CUT + text[last:]
