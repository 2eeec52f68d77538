"""Random queries over random tables, for the engines of SQL and for SQLite."""

import sqlite3
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from decimal import Decimal
from random import Random
from typing import Any, NamedTuple

import numpy as np
from apache_beam.utils.timestamp import Timestamp


class Row(NamedTuple):
    """A row of a random table."""

    id: int
    i: int | None
    j: int
    n: np.int32
    x: float | None
    y: float
    s: str | None
    u: str
    b: bool | None
    t: Timestamp
    day: date | None
    d: Decimal
    a: list[int]


_TEXTS = ("", "a", "b", "ab", "Ab", "abc", " b", "b ", "%", "a_b", "x1", "12")
_REALS = (0.0, 0.5, -0.5, 1.0, 2.5, -2.5, 3.0, 100.25, -7.75)


def random_rows(random: Random) -> list[Row]:
    """Return some rows with small numbers and short texts."""

    def maybe(value: Any) -> Any:
        return None if random.random() < 0.2 else value

    return [
        Row(
            id=number,
            i=maybe(random.randint(-9, 9)),
            j=random.randint(-3, 3),
            n=np.int32(random.randint(-50, 50)),
            x=maybe(random.choice(_REALS)),
            y=random.choice(_REALS),
            s=maybe(random.choice(_TEXTS)),
            u=random.choice(_TEXTS),
            b=maybe(random.random() < 0.5),
            t=Timestamp(micros=random.randrange(-(10**15), 2 * 10**15)),
            day=maybe(date(1970, 1, 1) + timedelta(days=random.randint(-9000, 30000))),
            d=Decimal(random.randint(-999, 999)).scaleb(-random.randint(0, 3)),
            a=[random.randint(0, 3) for _ in range(random.randint(0, 3))],
        )
        for number in range(random.randint(1, 6))
    ]


_UNITS = ("SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR", "DECADE")
_PARTS = (*_UNITS, "DOW", "ISODOW", "DOY", "ISOYEAR", "CENTURY", "MILLENNIUM", "EPOCH")


class Expressions:
    """Maker of random expressions over the columns of :class:`Row`.

    Args:
        random: the source of choices.
        plain: only those that have the same value in SQLite.
    """

    def __init__(self, random: Random, *, plain: bool) -> None:
        self._random = random
        self._plain = plain
        self._makers: dict[str, Callable[[int], str]] = {
            "int": self._int,
            "real": self._real,
            "text": self._text,
            "bool": self._bool,
            "time": self._time,
            "day": self._day,
            "decimal": self._decimal,
        }

    def kinds(self) -> tuple[str, ...]:
        """Return the types of expressions."""
        return ("int", "real", "text", "bool") if self._plain else (*self._makers,)

    def of(self, kind: str, depth: int = 3) -> str:
        """Return an expression of a type."""
        return self._makers[kind](depth)

    def any(self, depth: int = 3) -> str:
        """Return an expression of some type."""
        return self.of(self._random.choice(self.kinds()), depth)

    def _one(self, *choices: Callable[[], str]) -> str:
        return self._random.choice(choices)()

    def _leaf(self, depth: int, *leaves: str) -> str | None:
        return self._random.choice(leaves) if depth <= 0 or self._random.random() < 0.2 else None

    def _either(self, kind: str, depth: int) -> Callable[[], str]:
        def make() -> str:
            one, other = self.of(kind, depth), self.of(kind, depth)
            return self._random.choice(
                [
                    f"CASE WHEN {self.of('bool', depth)} THEN {one} ELSE {other} END",
                    f"CASE WHEN {self.of('bool', depth)} THEN {one} END",
                    f"COALESCE({one}, {other})",
                    f"NULLIF({one}, {other})",
                ]
            )

        return make

    def _int(self, depth: int) -> str:
        leaf = self._leaf(depth, "i", "j", "n", "id", "1", "2", "-3", "7")
        if leaf is not None:
            return leaf
        down = depth - 1
        number = lambda: self.of("int", down)  # noqa: E731
        plain = (
            lambda: f"({number()} {self._random.choice('+-')} {number()})",
            lambda: f"({self._small()} * {self._small()})",
            lambda: f"({number()} / NULLIF({self._small()}, 0))",
            lambda: f"MOD({number()}, {self._random.choice('23579')})",
            lambda: f"ABS({number()})",
            lambda: f"CHAR_LENGTH({self.of('text', down)})",
            self._either("int", down),
        )
        if self._plain:
            return self._one(*plain)
        return self._one(
            *plain,
            lambda: f"SIGN({number()})",
            lambda: f"ROUND({number()})",
            lambda: f"TRUNCATE({number()}, {self._random.choice(['0', '1', '-1'])})",
            lambda: f"FLOOR({number()})",
            lambda: f"GREATEST({number()}, {number()})",
            lambda: f"POSITION({self.of('text', down)} IN {self.of('text', down)})",
            lambda: f"CAST({self.of('real', down)} AS INTEGER)",
            lambda: f"EXTRACT({self._random.choice(_PARTS)} FROM {self.of('time', down)})",
            lambda: (
                f"TIMESTAMPDIFF({self._random.choice(_UNITS)}, {self.of('time', down)}, "
                f"{self.of('time', down)})"
            ),
            lambda: "CARDINALITY(a)",
            lambda: f"a[{self._random.choice('123')}]",
        )

    def _small(self) -> str:
        return self._random.choice(["i", "j", "n", "2", "-3"])

    def _real(self, depth: int) -> str:
        leaf = self._leaf(depth, "x", "y", "0.5e0", "-2.25e0")
        if leaf is not None:
            return leaf
        down = depth - 1
        number = lambda: self.of("real", down)  # noqa: E731
        plain = (
            lambda: f"({number()} {self._random.choice('+-')} {number()})",
            lambda: f"({number()} * {self._random.choice(['x', 'y', '0.5e0'])})",
            lambda: f"({number()} + {self.of('int', down)})",
            lambda: f"ABS({number()})",
            self._either("real", down),
        )
        if self._plain:
            return self._one(*plain)
        return self._one(
            *plain,
            lambda: f"({number()} / NULLIF({number()}, 0e0))",
            lambda: f"SIGN({number()})",
            lambda: f"FLOOR({number()})",
            lambda: f"CEIL({number()})",
            lambda: f"ROUND({number()}, {self._random.choice('012')})",
            lambda: f"TRUNCATE({number()}, {self._random.choice('012')})",
            lambda: f"CAST({self.of('decimal', down)} AS DOUBLE)",
            lambda: f"LEAST({number()}, {number()})",
        )

    def _text(self, depth: int) -> str:
        leaf = self._leaf(depth, "s", "u", "'a'", "'b '", "'xAy'")
        if leaf is not None:
            return leaf
        down = depth - 1
        text = lambda: self.of("text", down)  # noqa: E731
        plain = (
            lambda: f"({text()} || {text()})",
            lambda: f"UPPER({text()})",
            lambda: f"LOWER({text()})",
            lambda: f"SUBSTRING({text()}, {self._random.choice('123')}, 2)",
            lambda: f"REPLACE({text()}, 'a', 'xy')",
            lambda: f"TRIM({text()})",
            self._either("text", down),
        )
        if self._plain:
            return self._one(*plain)
        kinds = ("int", "real", "bool", "time", "day", "decimal")
        return self._one(
            *plain,
            lambda: f"INITCAP({text()})",
            lambda: f"REVERSE({text()})",
            lambda: f"LPAD({text()}, {self._random.choice('035')}, 'xy')",
            lambda: f"SUBSTRING({text()} FROM {self.of('int', 0)} FOR 2)",
            lambda: f"OVERLAY({text()} PLACING 'q' FROM 1)",
            lambda: f"CAST({self.of(self._random.choice(kinds), down)} AS VARCHAR)",
            lambda: f"CAST({text()} AS CHAR(3))",
            lambda: f"TO_HEX(MD5({text()}))",
        )

    def _bool(self, depth: int) -> str:
        kinds = [kind for kind in self.kinds() if kind != "bool"]
        kind, down = self._random.choice(kinds), depth - 1
        sign = self._random.choice(["=", "<>", "<", "<=", ">", ">="])
        value = lambda: self.of(kind, max(down, 0))  # noqa: E731
        compared = lambda: f"({value()} {sign} {value()})"  # noqa: E731
        if depth <= 0:
            return compared()
        return self._one(
            compared,
            lambda: f"({value()} IS NULL)",
            lambda: f"({value()} BETWEEN {value()} AND {value()})",
            lambda: f"({value()} IN ({value()}, {value()}))",
            lambda: f"({value()} NOT IN ({value()}, {value()}))",
            lambda: (
                f"({self.of('text', 0)} LIKE '{self._random.choice(['a%', '%b', '_', '%a_%'])}')"
            ),
            lambda: f"({self.of('bool', down)} AND {self.of('bool', down)})",
            lambda: f"({self.of('bool', down)} OR {self.of('bool', down)})",
            lambda: f"(NOT {self.of('bool', down)})",
            lambda: f"(({value()} {sign} {value()}) IS NOT TRUE)",
        )

    def _time(self, depth: int) -> str:
        leaf = self._leaf(depth, "t", "t", "TIMESTAMP '1969-12-31 23:59:59.5'")
        if leaf is not None:
            return leaf
        down, unit = depth - 1, self._random.choice(_UNITS)
        return self._one(
            lambda: f"FLOOR({self.of('time', down)} TO {unit})",
            lambda: f"CEIL({self.of('time', down)} TO {unit})",
            lambda: f"TIMESTAMPADD({unit}, {self._small()}, {self.of('time', down)})",
            lambda: f"CAST({self.of('day', down)} AS TIMESTAMP)",
            lambda: f"({self.of('time', down)} + INTERVAL '5' HOUR)",
        )

    def _day(self, depth: int) -> str:
        leaf = self._leaf(depth, "day", "day", "DATE '2024-02-29'")
        if leaf is not None:
            return leaf
        down, unit = depth - 1, self._random.choice(_UNITS[3:])
        return self._one(
            lambda: f"FLOOR({self.of('day', down)} TO {unit})",
            lambda: f"CEIL({self.of('day', down)} TO {unit})",
            lambda: f"TIMESTAMPADD({unit}, {self._small()}, {self.of('day', down)})",
            lambda: f"CAST({self.of('time', down)} AS DATE)",
            self._either("day", down),
        )

    def _decimal(self, depth: int) -> str:
        leaf = self._leaf(depth, "d", "d", "1.5", "0.25", "CAST(i AS DECIMAL)")
        if leaf is not None:
            return leaf
        down = depth - 1
        number = lambda: self.of("decimal", down)  # noqa: E731
        return self._one(
            lambda: f"({number()} {self._random.choice('+-')} {number()})",
            lambda: f"({number()} * {self._random.choice(['d', 'j', '1.5'])})",
            lambda: f"({number()} / {self._random.choice(['3', '1.5', '7'])})",
            lambda: f"({number()} + {self.of('int', down)})",
            lambda: f"ROUND({number()}, {self._random.choice('012')})",
            lambda: f"TRUNCATE({number()}, 1)",
            lambda: f"FLOOR({number()})",
            lambda: f"ABS({number()})",
            lambda: f"CAST({number()} AS DECIMAL(20, 2))",
            self._either("decimal", down),
        )

    def aggregate(self) -> str:
        """Return a random aggregate."""
        kind = self._random.choice(["int", "real"])
        number = self.of(kind, 1)
        functions = (
            ["COUNT", "SUM", "MIN", "MAX"]
            if self._plain
            else [
                *("COUNT", "SUM", "MIN", "MAX", "AVG", "VAR_POP", "VAR_SAMP", "STDDEV_POP"),
            ]
        )
        name = self._random.choice(functions)
        if self._random.random() < 0.2 and name in ("COUNT", "SUM", "AVG"):
            return f"{name}(DISTINCT {self._small()})"
        if kind == "int" and name.startswith(("VAR", "STD")):
            number = f"MOD({number}, 1000)"  # Spark's are doubles, with 15 digits.
        found = f"{name}({number})"
        if self._random.random() < 0.2:
            return f"{found} FILTER (WHERE {self.of('bool', 1)})"
        return self._random.choice([found, found, "COUNT(*)", f"MAX({self.of('text', 1)})"])


def random_query(random: Random, *, plain: bool) -> tuple[list[str], str]:
    """Return the expressions that a query selects, and what follows them.

    Args:
        random: the source of choices.
        plain: the query means the same to SQLite.
    """
    make = Expressions(random, plain=plain)
    where = f" WHERE {make.of('bool', 2)}" if random.random() < 0.4 else ""
    match random.randrange(4):
        case 0:
            # A whole number alone would be the position of a column to SQLite.
            key = random.choice(["j", "u", "b", f"({make.of('int', 1)} + j)"])
            items = [key, *(make.aggregate() for _ in range(3))]
            having = " HAVING COUNT(*) > 1" if random.random() < 0.3 else ""
            return items, f"FROM PCOLLECTION{where} GROUP BY {key}{having}"
        case 1:
            return [f"DISTINCT {make.any(2)}"], f"FROM PCOLLECTION{where}"
        case _:
            return [make.any() for _ in range(random.randint(1, 8))], f"FROM PCOLLECTION{where}"


def by_sqlite(query: str, rows: Sequence[Row]) -> list[tuple[Any, ...]]:
    """Return the result of a query by SQLite."""
    columns = ("id", "i", "j", "n", "x", "y", "s", "u", "b")
    with sqlite3.connect(":memory:") as database:
        database.execute("PRAGMA case_sensitive_like = true")
        database.create_function("CHAR_LENGTH", 1, lambda text: None if text is None else len(text))
        database.create_function(
            "MOD", 2, lambda n, by: None if None in (n, by) else int(np.fmod(n, by))
        )
        database.execute(f"CREATE TABLE PCOLLECTION ({', '.join(columns)})")
        marks = ", ".join("?" * len(columns))
        for row in rows:
            values = [getattr(row, name) for name in columns]
            plain = [each.item() if isinstance(each, np.generic) else each for each in values]
            database.execute(f"INSERT INTO PCOLLECTION VALUES ({marks})", plain)
        return list(database.execute(query))
