"""Where the states of DoFns are in the records of keys."""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from apache_beam.coders import coder_impl

from sparkbeam.worker.layouts.side_rows import window_key, window_part
from sparkbeam.worker.state.ordered_bag import OrderedBag
from sparkbeam.worker.state.records import Record

_USER = b"user"
_NAME_BYTES = 8

Remember = Callable[[Record, bytes], None]
"""Sees to it that what a record holds for an encoded window is forgotten in time."""


def user_cell(step: str, name: str, window: bytes) -> bytes:
    """The name of the cell that has a state.

    A state is known by a hash: the name of a transform is longer than most values, and would
    be there once for each. In a record there are few, so that two of them never meet.

    Args:
        step: the stored name of the DoFn.
        name: of its state.
        window: the encoded window.
    """
    named = f"{step}\0{name}".encode()
    digest = hashlib.blake2b(named, digest_size=_NAME_BYTES).digest()
    return _USER + window_key(window, digest)


def window_of(cell: bytes) -> bytes | None:
    """The encoded window of a cell that has a state; None of any other one."""
    if not cell.startswith(_USER):
        return None
    return window_part(cell[len(_USER) :])[len(window_key(b"")) :]


def forget_user_state(record: Record, window: bytes) -> None:
    """Empties all states of a record that belong to a window."""
    prefix = _USER + window_key(window)
    for cell in [cell for cell in record.cells() if cell.startswith(prefix)]:
        record.pop(cell)


class Done:
    """The future of a request that is already answered."""

    def get(self) -> None:
        return None


DONE = Done()


class Cell:
    """The place of a state in a record.

    Beam's own states take it for the one who answers requests, and for the key of what is
    asked for.
    """

    __slots__ = ("_name", "_record", "_remember", "_window")

    def __init__(self, record: Record, name: bytes, window: bytes, remember: Remember) -> None:
        self._record = record
        self._name = name
        self._window = window
        self._remember = remember

    def get(self) -> bytes | None:
        """The value, if there is one."""
        value: bytes | None = self._record.get(self._name)
        return value

    def set(self, value: bytes | None) -> None:
        """Sets the value, or removes it."""
        if value is None:
            self._record.pop(self._name)
        else:
            self._record.set(self._name, value)
            self._remember(self._record, self._window)

    def blocking_get(self, _: "Cell", coder: coder_impl.CoderImpl) -> Iterator[Any]:
        """The items of a bag."""
        return map(coder.decode_nested, self._record.bag(self._name))

    def extend(self, _: "Cell", coder: coder_impl.CoderImpl, items: Iterable[Any]) -> Done:
        """Adds items to a bag."""
        self._record.bag(self._name).append([coder.encode_nested(item) for item in items])
        self._remember(self._record, self._window)
        return DONE

    def read_later(self) -> None:
        """Announces that a bag is going to be read."""
        self._record.bag(self._name).read_later()

    def ordered(self) -> OrderedBag[bytes]:
        """The ordered bag that is there."""
        return self._record.ordered(self._name)

    def hold(self, micros: int | None) -> None:
        """Keeps the watermark from passing a time, until another one or None is set."""
        self._record.set_hold(self._name, micros)

    def remember(self) -> None:
        """Sees to it that what is there is forgotten in time."""
        self._remember(self._record, self._window)

    def clear(self, _: "Cell") -> Done:
        """Empties a bag."""
        self._record.bag(self._name).clear()
        return DONE
