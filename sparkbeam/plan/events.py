"""The events of a TestStream, as the source of a streaming query takes them."""

import pickle
from dataclasses import dataclass


@dataclass(frozen=True)
class ElementsAdded:
    """Arrival of elements at an output: windowed values, encoded one after the other."""

    output: str
    encoded: bytes


@dataclass(frozen=True)
class Watermark:
    """The watermark of an output advances, to microseconds since the epoch."""

    output: str
    micros: int


@dataclass(frozen=True)
class Elapse:
    """Processing time advances by some microseconds."""

    micros: int


Event = ElementsAdded | Watermark | Elapse


def packed(found: list[Event]) -> bytes:
    """Return events as the payload of a source."""
    return pickle.dumps(found)


def unpacked(payload: bytes) -> list[Event]:
    """Return the inverse of :func:`packed`."""
    found: list[Event] = pickle.loads(payload)
    return found
