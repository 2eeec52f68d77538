"""Queries in SQL that nobody has thought of: do all engines find the same?

Run with ``python bench/sqlfuzz.py --minutes 60 --seed 7``. Random queries over random tables are
compared between Spark, steps for each row (of Python's numbers, and of NumPy's), and steps in
windows; half of them, with functions that mean the same there, with SQLite too.
``--without-spark`` starts no JVM. Each difference is printed as one expression and its rows, and
``--only NUMBER`` with the same seed runs that trial alone. Ends with 1 if there is any.
"""

import sys
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import trials
from random_queries import Row, by_sqlite, random_query, random_rows
from sql_engines import Engine, Rows, alike, engines

from sparkbeam import SparkBeamOptions
from sparkbeam.spark import session as sessions


def as_sqlite(rows: Rows) -> Rows:
    """Rows with truth values as numbers, as SQLite has them."""
    return alike(
        tuple(int(each) if isinstance(each, bool) else each for each in row) for row in rows
    )


def results(run: dict[str, Engine], query: str, rows: list[Row], *, plain: bool) -> dict[str, Any]:
    """The results of all engines; an error is one too."""
    found: dict[str, Any] = {}
    for name, engine in run.items():
        try:
            found[name] = engine(query, Row, rows)
        except Exception as error:
            found[name] = f"{type(error).__name__}: {' '.join(str(error).split())[-300:]}"
    if plain and all(isinstance(each, list) for each in found.values()):
        found = {name: as_sqlite(each) for name, each in found.items()}
        found["SQLite"] = alike(by_sqlite(query, rows))
    return found


def differ(found: dict[str, Any]) -> bool:
    """True if two engines have different results, or one alone fails."""
    texts = ["an error" if isinstance(each, str) else repr(each) for each in found.values()]
    return len({*texts}) > 1


def trial(seed: int, number: int, run: dict[str, Engine], figures: Counter[str]) -> str | None:
    """One trial, which depends on its number and the seed alone; what differs, if it does."""
    random = Random(f"{seed}-{number}")
    plain = number % 2 == 0
    rows = random_rows(random)
    items, rest = random_query(random, plain=plain)
    found = results(run, f"SELECT {', '.join(items)} {rest}", rows, plain=plain)
    figures["queries"] += 1
    figures["with SQLite"] += "SQLite" in found
    figures["that fail in all engines"] += all(isinstance(each, str) for each in found.values())
    if not differ(found):
        return None
    return _smaller(run, items, rest, rows, plain=plain)


def _smaller(
    run: dict[str, Engine], items: list[str], rest: str, rows: list[Row], *, plain: bool
) -> str:
    """Return a difference with as few expressions and rows as still differ."""

    def still(given: list[str], some: list[Row]) -> bool:
        query = f"SELECT {', '.join(given)} {rest}"
        return differ(results(run, query, some, plain=plain))

    for item in items:
        if len(items) > 1 and still([item], rows):
            items = [item]
            break
    for row in list(rows):
        fewer = [each for each in rows if each is not row]
        if fewer and still(items, fewer):
            rows = fewer
    query = f"SELECT {', '.join(items)} {rest}"
    found = results(run, query, rows, plain=plain)
    lines = [query, *(repr(row) for row in rows)]
    return "\n".join([*lines, *(f"{name}: {each}" for name, each in found.items())])


def main() -> None:
    """Tries queries."""
    parser = trials.options(__doc__)
    parser.add_argument("--without-spark", action="store_true")
    given = parser.parse_args()
    spark = None
    if not given.without_spark:
        spark = sessions.obtain(SparkBeamOptions(["--spark_master=local[2]"]))
        spark.sparkContext.setLogLevel("OFF")
    run = engines(spark)
    figures = Counter[str]()
    trials.run(
        given,
        lambda number: trial(given.seed, number, run, figures),
        lambda: figures,
    )


if __name__ == "__main__":
    main()
