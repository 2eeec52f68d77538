"""What an expert writes for Spark finds the same as the queries of Nexmark."""

import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).parents[3] / "bench"))

import experts

EVENTS = 5_000


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    spark.sparkContext.addPyFile(experts.__file__)
    folder = str(tmp_path_factory.mktemp("events"))
    experts.write(spark, EVENTS, folder)
    return folder


@pytest.mark.part(3)
@pytest.mark.parametrize("number", experts.CONTESTS)
def test_experts_program_finds_what_the_query_does(
    spark: SparkSession, tables: str, number: int
) -> None:
    found = experts.in_beam(spark, tables, number)
    assert found[0]
    assert found == experts.in_spark(spark, tables, number)
