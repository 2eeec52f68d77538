"""Sides of joins that turn out to be small, on Spark: what is done with less."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

import apache_beam as beam
import equijoins
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to
from equijoins import matched, seen

from sparkbeam import Join, PipelineFailed, SparkRunner, as_dataframe
from sparkbeam.batch import side_probe
from sparkbeam.io import ReadFromSpark
from sparkbeam.plan import small_sides
from sparkbeam.plan.join_payload import HOWS, may_be_broadcast
from sparkbeam.spark.capabilities import settings_for_now
from sparkbeam.upstream.spark import ship

SMALL, LARGE = [1, 2, 2, 5], [*range(1, 200), 1, *range(1000, 1040)]


@pytest.fixture(autouse=True)
def looks() -> Iterator[list[side_probe.MeasuredSide]]:
    """The looks at sides, at which it is worth looking however few bytes are read."""
    found: list[side_probe.MeasuredSide] = []

    class Noted(side_probe.MeasuredSide):
        def __init__(self, *args: Any, **named: Any) -> None:
            super().__init__(*args, **named)
            found.append(self)

    with (
        mock.patch.object(small_sides, "_LEAST", 0),
        mock.patch.object(small_sides, "_TIMES_AS_MUCH", 1),
        mock.patch("sparkbeam.batch.execution.MeasuredSide", Noted),
    ):
        yield found


@pytest.fixture
def conf(spark: Any) -> Iterator[Any]:
    """Sets settings for a while."""
    with ExitStack() as stack:
        yield lambda name, value: stack.enter_context(settings_for_now(spark, {name: value}))


def joined(spark: Any, how: str, small: str, **options: Any) -> tuple[beam.Pipeline, list[Any]]:
    """A pipeline that joins a small side with a large one, and what comes out of that."""
    ship(spark, equijoins.__file__, module=True)
    left, right = (SMALL, LARGE) if small == "left" else (LARGE, SMALL)
    p = beam.Pipeline(SparkRunner(spark), options=PipelineOptions([]))
    one = p | "one" >> beam.Create(left) | "a" >> beam.Map(equijoins.counted)
    other = p | "other" >> beam.Create(right) | "b" >> beam.Map(equijoins.counted)
    found = (one, other) | Join(on=lambda e: e, how=how, result=lambda key, a, b: (a, b), **options)
    assert_that(found, equal_to(matched(left, right, how)))
    return p, [len(left), len(right)]


def ran(p: beam.Pipeline) -> Any:
    result: Any = p.run()
    result.wait_until_finish()
    return result


def kept(spark: Any) -> int:
    return int(spark.sparkContext._jsc.getPersistentRDDs().size())


class TestASmallSide:
    @pytest.mark.part(5)
    @pytest.mark.parametrize("how", HOWS)
    @pytest.mark.parametrize("small", ["left", "right"])
    def test_the_same_comes_out(
        self, how: str, small: str, spark: Any, looks: list[side_probe.MeasuredSide]
    ) -> None:
        before = kept(spark)
        p, counts = joined(spark, how, small)
        result = ran(p)
        assert seen(result) == sorted(counts)
        assert kept(spark) == before
        assert [look.side.side for look in looks] == ([] if how == "outer" else [small])
        large = {"left": "right", "right": "left"}[small]
        told = result.explain().joins
        if may_be_broadcast(how, small):
            assert f"    {small:5}  broadcast, " in told
            assert f"    {large:5}  not shuffled" in told
        leaves_out = any(look.keys is not None for look in looks)
        assert leaves_out == ((how, small) in WITHOUT_THE_REST)

    def test_one_that_is_large_is_not_made_twice(
        self, spark: Any, conf: Any, looks: list[side_probe.MeasuredSide]
    ) -> None:
        conf("spark.sql.adaptive.autoBroadcastJoinThreshold", "100")
        before = kept(spark)
        p, counts = joined(spark, "inner", "right")
        result = ran(p)
        assert seen(result) == sorted(counts)
        assert kept(spark) == before
        assert [(look.is_broadcast, look.keys) for look in looks] == [(False, None)]
        assert "sort-merge" in result.explain().joins

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("spark.sql.adaptive.autoBroadcastJoinThreshold", "-1"),
            ("spark.sql.adaptive.enabled", "false"),
        ],
    )
    def test_spark_s_settings_forbid_it(
        self, name: str, value: str, spark: Any, conf: Any, looks: list[side_probe.MeasuredSide]
    ) -> None:
        conf(name, value)
        p, _ = joined(spark, "inner", "right")
        assert "sort-merge" in ran(p).explain().joins
        assert looks == []

    @pytest.mark.parametrize("broadcast", ["never", "left"])
    def test_so_does_the_pipeline(
        self, broadcast: str, spark: Any, looks: list[side_probe.MeasuredSide]
    ) -> None:
        p, _ = joined(spark, "inner", "right", broadcast=broadcast)
        ran(p)
        assert looks == []

    def test_nothing_runs_where_a_pipeline_is_explained(
        self, spark: Any, looks: list[side_probe.MeasuredSide]
    ) -> None:
        p, _ = joined(spark, "inner", "right")
        assert "a side that turns out to be small" in SparkRunner(spark).explain(p).stages
        assert looks == []

    def test_nothing_runs_where_it_is_a_dataframe(
        self, spark: Any, looks: list[side_probe.MeasuredSide]
    ) -> None:
        p = beam.Pipeline(SparkRunner(spark))
        sides = p | "l" >> beam.Create(LARGE), p | "r" >> beam.Create(SMALL)
        ones = sides | Join(on=lambda e: e, result=lambda key, a, b: a)
        frame = as_dataframe(ones | beam.Map(int).with_output_types(int))
        assert looks == []
        assert sorted(row[0] for row in frame.collect()) == [1, 1, 2, 2, 5]

    def test_a_failure_on_it_is_told_with_its_step(self, spark: Any) -> None:
        before = kept(spark)
        p = beam.Pipeline(SparkRunner(spark))
        few = p | "few" >> beam.Create([0]) | "breaks" >> beam.Map(lambda n: 1 // n)
        (p | beam.Create(LARGE), few) | Join(on=lambda e: e)
        with pytest.raises(PipelineFailed, match=r"'breaks' failed.*ZeroDivisionError"):
            ran(p)
        assert kept(spark) == before

    @pytest.mark.part(3)
    @pytest.mark.parametrize("how", ["inner", "semi", "anti", "left"])
    def test_a_side_may_be_read_elsewhere_too(self, how: str, spark: Any) -> None:
        p = beam.Pipeline(SparkRunner(spark), options=PipelineOptions([]))
        few = p | "few" >> beam.Create(SMALL)
        many = p | "many" >> beam.Create(LARGE)
        found = (many, few) | Join(on=lambda e: e, how=how, result=lambda key, a, b: (a, b))
        again = (found, few) | "again" >> Join(
            on={"left": lambda pair: pair[0], "right": lambda e: e}, how="semi"
        )
        assert_that(few | "n" >> beam.combiners.Count.Globally(), equal_to([len(SMALL)]), "few")
        assert_that(many | "m" >> beam.combiners.Count.Globally(), equal_to([len(LARGE)]), "many")
        whole = matched(LARGE, SMALL, how)
        assert_that(again, equal_to([pair for pair in whole if pair[0] in SMALL]), "again")
        ran(p)


WITHOUT_THE_REST = {
    ("inner", "left"),
    ("inner", "right"),
    ("left", "left"),
    ("right", "right"),
    ("semi", "left"),
    ("semi", "right"),
    ("anti", "left"),
}
"""Joins, with their small sides, for which elements of the other one without a partner are left."""


class TestWhatSparkReads:
    @pytest.mark.parametrize("reader", ["spark", "beam"])
    def test_tables_are_compared_by_their_sizes(
        self, reader: str, spark: Any, tmp_path: Path, looks: list[side_probe.MeasuredSide]
    ) -> None:
        p = beam.Pipeline(SparkRunner(spark), options=PipelineOptions([]))
        read = []
        for name, count in (("large", 50_000), ("small", 100)):
            path = tmp_path / f"{name}.parquet"
            ids = [n * 7919 % 100_003 for n in range(count)]
            pq.write_table(pa.table({"id": ids, "text": [f"text {id}" for id in ids]}), path)
            if reader == "beam":
                read.append(p | name >> beam.io.ReadFromParquet(str(path)))
            else:
                rows = p | name >> ReadFromSpark("parquet", {"path": str(path)})
                read.append(rows | f"{name} dict" >> beam.Map(lambda row: {"id": row.id}))
        found = tuple(read) | Join(on="id", result=lambda key, a, b: key)
        assert_that(found | beam.combiners.Count.Globally(), equal_to([100]))
        result = ran(p)
        assert [look.side.side for look in looks] == ["right"]
        assert "left   not shuffled" in result.explain().joins
