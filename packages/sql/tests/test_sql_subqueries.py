"""Subqueries in windows have the rows of SQL, also where nothing is in them."""

from typing import Any, NamedTuple

import pytest

pytest.importorskip("sqlglot")

from sql_engines import by_steps

from sparkbeam_sql.calcite_dialect import QueryRefused


class Item(NamedTuple):
    k: int
    a: int | None


ITEMS = [Item(1, 10), Item(1, None), Item(2, 20), Item(2, 25), Item(3, None)]

VALUES: dict[str, list[Any]] = {
    # A value: those of each row of the table.
    "SELECT COALESCE(SUM(b.a), 0) FROM t b WHERE b.k = p.k + 1": [45, 45, 0, 0, 0],
    "SELECT COALESCE(MAX(b.a), 0) FROM t b WHERE b.k > 100": [0, 0, 0, 0, 0],
    "SELECT CASE WHEN MAX(b.a) IS NULL THEN -1 END FROM t b WHERE b.k > 100": [-1] * 5,
    "SELECT COUNT(*) FROM t b HAVING COUNT(*) > 100": [None] * 5,
    "SELECT COUNT(*) FROM t b WHERE b.k > 100 HAVING COUNT(*) = 0": [0] * 5,
    "SELECT COUNT(*) FROM t b LIMIT 0": [None] * 5,
    "SELECT COUNT(*) FROM t b LIMIT 1 OFFSET 1": [None] * 5,
    "SELECT COUNT(*) FROM t b WHERE b.k = p.k HAVING COUNT(*) > 1": [2, 2, 2, 2, None],
    "SELECT MAX(b.a) FROM t b WHERE b.k = p.k LIMIT 1": [10, 10, 25, 25, None],
    "SELECT 1 + COUNT(*) FROM t b WHERE b.k = p.k + 1": [3, 3, 2, 2, 1],
    "SELECT COUNT(*) FILTER (WHERE b.a > 20) FROM t b WHERE b.k = p.k": [0, 0, 1, 1, 0],
    "SELECT DISTINCT COUNT(b.a) FROM t b WHERE b.k = p.k ORDER BY 1": [1, 1, 2, 2, 0],
}
CONDITIONS: dict[str, list[int]] = {
    # A condition: the rows of the table for which it holds, by their positions.
    "EXISTS (SELECT COUNT(*) FROM t b WHERE b.k > 100)": [0, 1, 2, 3, 4],
    "NOT EXISTS (SELECT COUNT(*) FROM t b WHERE b.k > 100)": [],
    "EXISTS (SELECT 1 FROM t b WHERE b.k = p.k HAVING COUNT(*) > 1)": [0, 1, 2, 3],
    "NOT EXISTS (SELECT MAX(b.a) FROM t b WHERE b.k = p.k HAVING MAX(b.a) > 15)": [0, 1, 4],
    "EXISTS (SELECT COUNT(*) FROM t LIMIT 0)": [],
    "k - k IN (SELECT COUNT(*) FROM t b WHERE b.k > 100)": [0, 1, 2, 3, 4],
    "k IN (SELECT MAX(b.k) FROM t b WHERE b.k = p.k)": [0, 1, 2, 3, 4],
    "k NOT IN (SELECT MAX(b.k) FROM t b WHERE b.k > 100)": [],
    "k NOT IN (SELECT MAX(b.k) FROM t b)": [0, 1, 2, 3],
    "k NOT IN (SELECT MAX(b.k) FROM t b HAVING COUNT(*) > 100)": [0, 1, 2, 3, 4],
    "k IN (WITH t AS (SELECT 2 AS k) SELECT k FROM t)": [2, 3],
}
QUERIES: dict[str, list[Any]] = {
    "SELECT p.k FROM (WITH t AS (SELECT 2 AS k) SELECT k FROM t) q JOIN t p ON q.k = p.k": [
        (2,),
        (2,),
    ],
    "WITH x AS (SELECT k FROM t), y AS (WITH x AS (SELECT k + 1 AS k FROM x) SELECT k FROM x) "
    "SELECT x.k, y.k FROM x JOIN y ON x.k = y.k": [*[(2, 2)] * 4, *[(3, 3)] * 2],
    "WITH t AS (SELECT k + 1 AS k FROM t) SELECT k FROM t": [(2,), (2,), (3,), (3,), (4,)],
}


def rows(query: str) -> list[Any]:
    text = query.replace(" t ", " PCOLLECTION ").replace(" t)", " PCOLLECTION)")
    text = text.removesuffix(" t") + " PCOLLECTION" * text.endswith(" t")
    # A query without FROM is in the global window.
    return by_steps(text, Item, ITEMS, windows="AS (SELECT 2" not in text)


@pytest.mark.part(3)
@pytest.mark.parametrize("subquery", VALUES)
def test_subqueries_have_values(subquery: str) -> None:
    found = rows(f"SELECT k, a, ({subquery}) FROM t p")
    expected = [(*item, value) for item, value in zip(ITEMS, VALUES[subquery], strict=True)]
    assert found == sorted(expected, key=repr)


@pytest.mark.part(3)
@pytest.mark.parametrize("condition", CONDITIONS)
def test_conditions_have_subqueries(condition: str) -> None:
    found = rows(f"SELECT k, a FROM t p WHERE {condition}")
    expected = [tuple(ITEMS[at]) for at in CONDITIONS[condition]]
    assert found == sorted(expected, key=repr)


@pytest.mark.parametrize("query", QUERIES)
def test_names_of_with_belong_to_their_query(query: str) -> None:
    assert rows(query) == QUERIES[query]


COUNTS = "(SELECT COUNT(*) AS n, MAX(k) AS m FROM t b WHERE b.k > 100)"


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT p.k FROM t p, {COUNTS} q WHERE p.k - p.k = q.n",
        f"SELECT p.k FROM {COUNTS} q, t p WHERE p.k - p.k = q.n",
        f"SELECT p.k FROM t p JOIN {COUNTS} q ON p.k = COALESCE(q.m, 1)",
        f"WITH w AS {COUNTS} SELECT k FROM t WHERE k IN (SELECT n FROM w)",
        f"SELECT k, (SELECT MAX(n) FROM {COUNTS} q) FROM t",
        "SELECT k FROM t WHERE k NOT IN (SELECT MAX(k) FROM t UNION SELECT 1 FROM t)",
    ],
)
def test_an_aggregate_that_may_lack_its_row_is_not_joined(query: str) -> None:
    with pytest.raises(QueryRefused, match="an aggregate without GROUP BY") as refused:
        rows(query)
    assert "WHERE x = (SELECT COUNT" in refused.value.remedy


def test_an_aggregate_that_is_null_without_rows_is_joined() -> None:
    assert rows(f"WITH w AS {COUNTS} SELECT p.k FROM t p JOIN w ON p.k = w.m + 1") == []
    assert rows("SELECT p.k FROM (SELECT MAX(k) AS m FROM t) q, t p WHERE p.k = q.m") == [(3,)]
