"""Columns of rows beside those of a table that they are written to."""

from decimal import Decimal
from math import inf, nan
from typing import Any

import pytest
from pyspark.sql import types as st

from sparkbeam import ConfigurationError
from sparkbeam.connectors.assignments import check_assignment, checked_rows

DOUBLE, LONG, DECIMAL = st.DoubleType(), st.LongType(), st.DecimalType(10, 2)


@pytest.mark.parametrize("depth", ["", "[]", ".value", ".x"])
@pytest.mark.parametrize(
    ("source", "target", "cuts"),
    [
        (DOUBLE, LONG, True),
        (st.FloatType(), st.ByteType(), True),
        (DECIMAL, LONG, True),
        (DECIMAL, st.DecimalType(10, 1), True),
        (st.DecimalType(5, 0), LONG, False),
        (DECIMAL, st.DecimalType(12, 4), False),
        (DECIMAL, DOUBLE, False),
        (DOUBLE, DECIMAL, False),
        (DOUBLE, st.FloatType(), False),
        (DOUBLE, st.StringType(), False),
        (LONG, st.IntegerType(), False),
        (LONG, DECIMAL, False),
        (st.TimestampType(), st.DateType(), True),
        (st.TimestampNTZType(), st.DateType(), True),
        (st.DateType(), st.TimestampType(), False),
        (st.TimestampType(), st.StringType(), False),
    ],
    ids=str,
)
def test_what_a_column_would_cut_is_an_error(
    source: st.DataType, target: st.DataType, cuts: bool, depth: str
) -> None:
    around = {
        "": lambda kind: kind,
        "[]": st.ArrayType,
        ".value": lambda kind: st.MapType(st.StringType(), kind),
        ".x": lambda kind: st.StructType().add("x", kind).add("y", "string"),
    }[depth]
    pair = [st.StructField("c", around(kind)) for kind in (source, target)]
    if not cuts:
        check_assignment([(pair[0], pair[1])], "shop.sales")
        return
    lost = "the time of day" if isinstance(target, st.DateType) else "digits"
    with pytest.raises(
        ConfigurationError, match=rf"'shop.sales' has .* would truncate {lost}: convert"
    ) as caught:
        check_assignment([(pair[0], pair[1])], "shop.sales")
    assert f"'c{depth}' is of type {source.simpleString()}" in str(caught.value)


@pytest.mark.parametrize(
    ("source", "target", "fit", "wrong"),
    [
        ("bigint", "int", [(1 << 31) - 1, -(1 << 31)], [1 << 31, -(1 << 63)]),
        ("int", "tinyint", [127], [128]),
        ("decimal(12,0)", "int", [Decimal(5)], [Decimal(1 << 32)]),
        ("double", "float", [0.1, inf, -inf, nan], [1e300, -1e300]),
        ("bigint", "double", [1 << 62, -(1 << 63)], [(1 << 53) + 1, (1 << 63) - 1]),
        ("bigint", "float", [1 << 62, 1 << 24], [(1 << 24) + 1, (1 << 63) - 1]),
        ("int", "float", [1 << 30], [(1 << 31) - 1]),
        ("bigint", "decimal(5,2)", [999, -999], [1000, -(1 << 63)]),
        ("decimal(9,2)", "decimal(5,2)", [Decimal("-999.99")], [Decimal(1000)]),
        ("double", "decimal(5,2)", [999.99, 1.239], [999.996, -1e300, nan, inf]),
        ("array<bigint>", "array<int>", [[1, None], []], [[None, 1 << 31]]),
        ("map<bigint,int>", "map<int,int>", [{1: 1}], [{1: 1, 1 << 31: 1}]),
        ("map<int,array<double>>", "map<int,array<float>>", [{1: None}, {2: [inf]}], [{1: [1e99]}]),
        (
            "struct<x:struct<y:bigint>>",
            "struct<X:struct<y:int>>",
            [((1,),), (None,)],
            [((1 << 31,),)],
        ),
    ],
)
def test_a_value_that_a_column_would_change_is_an_error(
    spark: Any, source: str, target: str, fit: list[Any], wrong: list[Any]
) -> None:
    rows = spark.createDataFrame([(value,) for value in [None, *fit]], f"`a.c` {source}")
    columns = spark.createDataFrame([], f"other int, `A.C` {target}").schema
    checked = checked_rows(rows, columns, "sales")
    assert checked.schema == rows.schema
    assert str(checked.collect()) == str(rows.collect())
    for value in wrong:
        bad = spark.createDataFrame([(value,)], f"`a.c` {source}")
        with pytest.raises(Exception, match=r"value of the field 'a.c.*' does not fit .* 'A.C"):
            checked_rows(bad, columns, "sales").collect()


def test_rows_that_fit_by_their_types_are_not_checked(spark: Any) -> None:
    names = "i int, f float, s string, d decimal(5,2), a array<int>"
    rows = spark.createDataFrame([], names)
    wider = "i double, f double, d decimal(9,4), a array<bigint>"
    assert checked_rows(rows, spark.createDataFrame([], wider).schema, "sales") is rows
