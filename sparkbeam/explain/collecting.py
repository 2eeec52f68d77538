"""Collection of what the pipelines of a program leave, for commands."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

T = TypeVar("T")


class Collector(Generic[T]):
    """Items of the pipelines that start on this runner while somebody collects, in all threads."""

    def __init__(self) -> None:
        self._lists: tuple[list[T], ...] = ()

    def __bool__(self) -> bool:
        return bool(self._lists)

    @contextmanager
    def collected(self, items: list[T] | None = None) -> Iterator[list[T]]:
        """Yield a list of the items, in order, which grows meanwhile."""
        items = [] if items is None else items
        self._lists = (*self._lists, items)
        try:
            yield items
        finally:
            self._lists = tuple(each for each in self._lists if each is not items)

    def add(self, item: T) -> None:
        """Add an item to all lists."""
        for items in self._lists:
            items.append(item)
