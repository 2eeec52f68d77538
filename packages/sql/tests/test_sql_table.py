"""Expressions and aggregates have their values in all engines: Spark, for each row, in windows."""

import re
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

pytest.importorskip("sqlglot")

from random_queries import Row, by_sqlite, random_query, random_rows
from sql_engines import Rows, alike, by_steps, engines
from sql_expressions import AGGREGATES, GROUPS, ITEMS, ROW, Item, Mixed

from sparkbeam_sql.calcite_dialect import QueryRefused
from sparkbeam_sql.calcite_functions import FUNCTIONS

Engine = Callable[..., Rows]
ENGINES = ("spark", "rows", "numpy", "windows")


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> tuple[str, Engine]:
    """Name and function of an engine."""
    spark = request.getfixturevalue("spark") if request.param == "spark" else None
    return request.param, engines(spark)[request.param]


def values(run: Engine, expressions: list[str], kind: Any, rows: list[Any]) -> dict[str, Any]:
    """Return the values of expressions, which one query computes."""
    (found,) = run(f"SELECT {', '.join(expressions)} FROM PCOLLECTION", kind, rows)
    return dict(zip(expressions, found, strict=True))


@pytest.mark.parametrize("group", [*GROUPS, "aggregates"])
def test_expressions_have_the_values_of_beam_sql(engine: tuple[str, Engine], group: str) -> None:
    name, run = engine
    table = GROUPS.get(group, AGGREGATES)
    expected = {
        expression: value for expression, value, *only in table if not only or name in only[0]
    }
    kind, rows = (Item, ITEMS) if group == "aggregates" else (Mixed, [ROW])
    found = values(run, [*expected], kind, rows)
    assert {key: (type(each), each) for key, each in found.items()} == {
        key: (type(each), each) for key, each in expected.items()
    }


@pytest.mark.parametrize("group", [*GROUPS, "aggregates"])
def test_what_only_spark_has_is_refused_elsewhere(group: str) -> None:
    for expression, _, *only in GROUPS.get(group, AGGREGATES):
        if only:
            kind, rows = (Item, ITEMS) if group == "aggregates" else (Mixed, [ROW])
            with pytest.raises(QueryRefused):
                values(by_steps, [expression], kind, rows)


def test_aggregates_of_no_rows_are_null(engine: tuple[str, Engine]) -> None:
    name, run = engine
    query = "SELECT SUM(n), AVG(n), MIN(n), VAR_POP(n), COUNT(n), COUNT(*) FROM PCOLLECTION"
    found = run(f"{query} WHERE n > 100", Item, ITEMS)
    # A window without elements has no pane.
    assert found == ([(None, None, None, None, 0, 0)] if name == "spark" else [])
    assert run(f"{query} WHERE n > 100 GROUP BY k", Item, ITEMS) == []


@pytest.mark.parametrize("number", range(4))
def test_random_queries_have_the_rows_of_sqlite(number: int) -> None:
    random = Random(f"queries-{number}")
    rows = random_rows(random)
    items, rest = random_query(random, plain=True)
    query = f"SELECT {', '.join(items)} {rest}"
    found = [
        tuple(int(value) if isinstance(value, bool) else value for value in row)
        for row in by_steps(query, Row, rows, windows=number % 2 == 0)
    ]
    assert alike(found) == alike(by_sqlite(query, rows))


def test_all_functions_are_documented() -> None:
    text = (Path(__file__).parents[3] / "docs" / "sql.md").read_text()
    begin = text.index("These functions are available in windows and in streaming")
    listed = {name.replace("\\|", "|") for name in re.findall(r"`([^`]+)`", text[begin:])}
    missing = [
        function.names
        for function in FUNCTIONS.values()
        if function.python is not None
        and function.names not in listed
        and not {*function.names.split()} <= listed
    ]
    assert missing == []
