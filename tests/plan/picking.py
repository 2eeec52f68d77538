"""Functions of a module that workers import, and may find with other values."""

from math import floor as down
from typing import Any

FLAG, KEY, RATE, NONE = True, 0, 2.0, None


class Settings:
    FLAG = True

    def __init__(self) -> None:
        self.flag = True

    def pick(self, row: Any) -> Any:
        return row.id if self.FLAG else row.set


def pick(row: Any) -> Any:
    return row.id if FLAG else row.set


def at_key(row: Any) -> Any:
    return row[KEY]


def rated(row: Any) -> Any:
    return row.id * RATE + len((0, 1))


def without(row: Any) -> Any:
    return row.id if NONE is None else row.set


def of_class(row: Any) -> Any:
    return row.id if Settings.FLAG else row.set


def of_settings(row: Any) -> Any:
    return row.id if SETTINGS.flag else row.set


def default(row: Any, flag: bool = FLAG) -> Any:
    return row.id if flag else row.set


def aliased(row: Any) -> Any:
    return PICK(row)


def rounded(row: Any) -> Any:
    return down(row.id)


SETTINGS, PICK = Settings(), pick
