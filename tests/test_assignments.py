"""Columns of rows beside those of a table that they are written to."""

import pytest
from pyspark.sql import types as st

from sparkbeam import ConfigurationError
from sparkbeam.connectors.assignments import check_assignment

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
        (st.TimestampType(), st.DateType(), False),
    ],
    ids=str,
)
def test_digits_that_a_column_would_cut_are_an_error(
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
    with pytest.raises(ConfigurationError, match=r"'shop.sales' has .* truncate digits") as caught:
        check_assignment([(pair[0], pair[1])], "shop.sales")
    assert f"'c{depth}' is of type {source.simpleString()}" in str(caught.value)
