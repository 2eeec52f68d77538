"""Values that sinks write: the table of types and values in each sink, and beside PySpark's own."""

from collections.abc import Callable
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pytest
from all_sinks import Sinks, plain
from pyspark.sql import types as st
from sink_values import TAKEN, UNSHIPPED, VALUES, within, wrapped, wraps

COLUMNS = [
    (f"c{place}_{number}", name, around)
    for place, name in enumerate(TAKEN)
    if name != "void"  # Files have no such type.
    for number, around in enumerate([(), *[*wraps()][1 + place :: 13]])
]
"""Each type by itself and within others: the column, the type and what is around it."""
SCHEMA = st.StructType([st.StructField("row", st.IntegerType())])
for _column, _name, _around in COLUMNS:
    SCHEMA.add(_column, within(_around, TAKEN[_name][0])[0]["c"].dataType)
ROWS = 25
FLAT = ("boolean", "smallint", "int", "bigint", "decimal(10,2)", "date", "timestamp")
"""Types whose values tables of Derby have, too."""


def rows(values: Callable[[str], list[Any]], *names: str) -> list[dict[str, Any]]:
    """Return rows with the values of each type, by themselves if there are names."""
    columns = {"row": [*range(ROWS)]}
    for column, name, around in COLUMNS:
        if not names or (name in names and not around):
            found = [wrapped(around, value) for value in values(name)]
            columns[column] = [*islice(cycle(found), ROWS)]
    return [{name: part[number] for name, part in columns.items()} for number in range(ROWS)]


def shipped(name: str) -> dict[str, Any]:
    """Return the values that a type takes, without those that cannot be pickled, or are ancient."""
    without = {*UNSHIPPED, "year 0"}
    return {words: value for words, value in TAKEN[name][1].items() if words not in without}


def written(*names: str) -> list[dict[str, Any]]:
    return rows(lambda name: [VALUES[words] for words in shipped(name)], *names)


def check(frame: Any, *names: str) -> None:
    found = sorted(frame.collect(), key=lambda row: row.row)
    expected = rows(lambda name: [*shipped(name).values()], *names)
    assert [*map(plain, found)] == [*map(plain, expected)]


@pytest.fixture(
    params=["files", "table", "function", "dataframe", "jdbc", "stream", "stream_function"]
)
def sink(request: pytest.FixtureRequest, spark: Any, tmp_path: Path) -> Any:
    found = getattr(Sinks(spark, tmp_path), request.param)
    yield found
    spark.sql(f"DROP TABLE IF EXISTS written_{tmp_path.name}")


def test_each_value_is_written_as_the_table_says(sink: Any) -> None:
    names = FLAT if sink.__name__ == "jdbc" else ()
    elements = written(*names)
    check(sink(elements, st.StructType([SCHEMA[name] for name in elements[0]])), *names)


@pytest.mark.part(3)
@pytest.mark.parametrize("value", [2.7, None])
def test_an_error_names_step_and_column(sink: Any, value: float | None) -> None:
    kind: st.DataType = st.LongType()
    path, row = "c", dict[str, Any](c=value)
    if sink.__name__ != "jdbc":
        kind = st.ArrayType(st.StructType().add("x", st.ArrayType(kind, containsNull=False)))
        path, row = "c[].x[]", {"c": [None, {"x": [1, value]}]}
    problem = "and not nullable" if value is None else ", and a value of type float"
    text = f"ValueError: the column '{path}' of the schema is of type bigint.*{problem}"
    with pytest.raises(Exception, match=rf"Step '.*' failed: {text}".replace("[]", r"\[\]")):
        sink([row], st.StructType().add("c", kind, nullable=False))


BEYOND = frozenset(
    [
        *(words for words in VALUES if words.startswith(("np.", "pd.", "Timestamp"))),
        *("Level.LOW", "Ratio(2.7)", "Colour.RED", "Duration", "memoryview", "mapping", "Pair"),
        *("range", "deque"),
    ]
)
"""Values that PySpark refuses, mostly as their classes inherit from the one that it takes."""
CHANGED = {
    "float": {"1e300", "-1e300"},  # Infinite.
    "decimal(10,2)": {"Decimal(2.705)", "Decimal(123456789)"},  # Rounded, or null.
    "string": VALUES.keys(),  # Texts of anything.
    "interval": {"timedelta.max"},  # Another one.
    "map<string,int>": {"dict of numbers"},  # Texts as keys.
    "struct<a:int,b:int>": {words for words, value in VALUES.items() if hasattr(value, "__dict__")},
}
"""Values that PySpark changes, and that are errors here; a NaN of decimals is null everywhere."""


@pytest.mark.part(3)
@pytest.mark.parametrize("name", TAKEN)
def test_values_are_taken_as_pyspark_takes_them(name: str, spark: Any) -> None:
    kind, taken = TAKEN[name]
    schema = st.StructType().add("c", kind)
    for words, value in VALUES.items():
        try:
            (row,) = spark.createDataFrame([(value,)], schema).collect()
        except Exception:
            is_number = isinstance(value, int) and name in ("float", "double", "decimal(10,2)")
            assert words not in taken or is_number or words in BEYOND, words
            continue
        if words not in taken:
            assert words in ("Decimal(NaN)", *CHANGED.get(name, ())), words
        elif words != "Row of Spark":  # By the places of its fields.
            assert plain(row.c) == plain(taken[words]), words
