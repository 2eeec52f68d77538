"""Schemas in DDL that are read without Spark: as Spark reads them, or not at all."""

from typing import Any

import pytest

from sparkbeam.connectors.ddl import read_ddl

READ = """
c date
a: int, b decimal(10, 2) not null, m map<string,array<struct<x:int, y : bigint NOT NULL>>>
A decimal, a DECIMAL ( 7 ), `a b` timestamp_ntz, `c` Struct < `d e`: tinyint , f ARRAY<float> >
a byte, b smallint, c short, d long, e bigint, f double, g binary, h boolean, i timestamp
date date, select int, not int, null int, interval int, array array<int>, map map<int,int>
a decimal(38,38), b decimal(0), _a int, a int
"""
OTHERS = """
int
a int,
1a int
a int b
a::int
`a,b` int
a int -- b
a int default 3
a int COMMENT 'b'
a string COLLATE x
a char(3)
a decimal(39)
a decimal(5,7)
a array<int
a array<int,int>
a array<int not null>
a map<int>
a struct<>
struct<a:int>
"""


@pytest.mark.parametrize("text", READ.strip().splitlines())
def test_common_schemas_are_read_as_by_spark(spark: Any, text: str) -> None:
    assert read_ddl(text) == spark.createDataFrame([], text).schema


def test_schemas_that_spark_must_read_are_not_read() -> None:
    assert not [text for text in OTHERS.splitlines() if read_ddl(text) is not None]
