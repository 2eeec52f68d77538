"""Location of the states of DoFns in the records of keys."""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from apache_beam.coders import coder_impl

from sparkbeam.worker.row_formats.side_input_rows import window_key, window_part
from sparkbeam.worker.state.ordered_bag import OrderedBag
from sparkbeam.worker.state.records import Record

_USER = b"user"
_NAME_BYTES = 8

Remember = Callable[[Record, bytes], None]
"""Function that ensures that a record's state for an encoded window is forgotten in time."""


def user_cell(step: str, name: str, window: bytes) -> bytes:
    """Return the name of the cell that has a state.

    A state is known by a hash: the name of a transform is longer than most values, and would
    be there once for each. In a record there are few, so that two of them never meet.

    Args:
        window: the encoded window.
    """
    named = f"{step}\0{name}".encode()
    digest = hashlib.blake2b(named, digest_size=_NAME_BYTES).digest()
    return _USER + window_key(window, digest)


def window_of(cell: bytes) -> bytes | None:
    """Return the encoded window of a cell that has a state; None for other cells."""
    if not cell.startswith(_USER):
        return None
    return window_part(cell[len(_USER) :])[len(window_key(b"")) :]


def forget_user_state(record: Record, window: bytes) -> None:
    """Empty all states of a record that belong to a window."""
    prefix = _USER + window_key(window)
    for cell in [cell for cell in record.cells() if cell.startswith(prefix)]:
        record.pop(cell)


class Done:
    """Future of a request that is already answered."""

    def get(self) -> None:
        return None


DONE = Done()


class Cell:
    """The place of a state in a record.

    Beam's own states use it as the handler of requests, and as the key of the requested
    state.
    """

    __slots__ = ("_name", "_record", "_remember", "_window")

    def __init__(self, record: Record, name: bytes, window: bytes, remember: Remember) -> None:
        self._record = record
        self._name = name
        self._window = window
        self._remember = remember

    def get(self) -> bytes | None:
        """Return the value, if there is one."""
        value: bytes | None = self._record.get(self._name)
        return value

    def set(self, value: bytes | None) -> None:
        """Set the value, or remove it."""
        if value is None:
            self._record.pop(self._name)
        else:
            self._record.set(self._name, value)
            self._remember(self._record, self._window)

    def blocking_get(self, _: "Cell", coder: coder_impl.CoderImpl) -> Iterator[Any]:
        """Yield the items of a bag."""
        return map(coder.decode_nested, self._record.bag(self._name))

    def extend(self, _: "Cell", coder: coder_impl.CoderImpl, items: Iterable[Any]) -> Done:
        """Add items to a bag."""
        self._record.bag(self._name).append([coder.encode_nested(item) for item in items])
        self._remember(self._record, self._window)
        return DONE

    def read_later(self) -> None:
        """Announce that a bag is going to be read."""
        self._record.bag(self._name).read_later()

    def ordered(self) -> OrderedBag[bytes]:
        """Return the ordered bag."""
        return self._record.ordered(self._name)

    def hold(self, micros: int | None) -> None:
        """Keep the watermark from passing a time, until another one or None is set."""
        self._record.set_hold(self._name, micros)

    def remember(self) -> None:
        """Ensure that the state is forgotten in time."""
        self._remember(self._record, self._window)

    def clear(self, _: "Cell") -> Done:
        """Empty a bag."""
        self._record.bag(self._name).clear()
        return DONE
