"""Functions without a form over columns, with the reason, in the table beside this module."""

# ruff: noqa: F401 - The functions of the table use what is imported.

import enum
import math
import operator
import re
from typing import Any

import misuse
from apache_beam.metrics import Metrics
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp
from in_python import INT, Element, Inner, refusal
from test_compile import (
    CHOSEN,
    NAMES,
    SPACE,
    TABLE,
    Kind,
    Level,
)
from test_counting import BUCKETS, INC, LATEST, ODD, TOTAL, UPDATE
from test_lists import GROUP, pairs

from sparkbeam.columns import ResultKind

MANY = set(range(20_000))
ODD_VALUES = [1, object()]
CHANGING = 5
LARGE = 10**5000


class Strange(int, enum.Enum):
    ONE = 1

    def __eq__(self, other: Any) -> bool:
        return True

    __hash__ = int.__hash__


def loops(x: Element) -> int:
    result = 0
    for one in x.s:
        result += len(one)
    return result


exec(
    "def many_ways(x):\n    y = x.a\n"
    + "".join(f"    y = (y if x.p else (y if x.q else {at}.5))\n" for at in range(30))
    + "    return 1 if y else 2",
    SPACE,
)
many_ways = SPACE["many_ways"]


def waits(x: Element) -> int:
    while x.a:
        pass
    return 1


def sets_global(x: Element) -> int:
    global CHANGING
    CHANGING = x.a
    return 1


def adds_global(x: Element) -> int:
    return x.a + CHANGING


def with_with(x: Element) -> int:
    with open(x.s):
        return 1


def calls_itself(x: Element) -> int:
    return calls_itself(x)


class Refused(Exception):
    """A function has no form over columns."""


def element(function: Any) -> None:
    raise Refused(refusal(function))


def group(function: Any) -> None:
    raise Refused(refusal(function, GROUP, form=ResultKind.FLAT))


def number(function: Any) -> None:
    raise Refused(refusal(function, INT))


@misuse.table(__file__)
def test_a_function_that_stays_with_elements_has_a_reason(call: misuse.Call) -> None:
    misuse.check(call, globals())
