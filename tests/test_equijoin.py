"""Joins by equal keys, which are the same wherever they run."""

from pathlib import Path
from typing import Any

import apache_beam as beam
import equijoins
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to
from equijoins import matched, results, seen
from hypothesis import given, settings
from hypothesis import strategies as st
from in_process import StreamingRunner
from in_process_batch import BatchRunner

from sparkbeam import Join, PipelineFailed, SparkRunner
from sparkbeam.plan.join_payload import HOWS
from sparkbeam.spark.capabilities import settings_for_now
from sparkbeam.upstream.spark import ship


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """By Beam's own runner."""
    return results(FnApiRunner(), tmp_path_factory.mktemp("beam"))


class TestSameAsBeam:
    def test_there_is_something_to_compare(self, expected: dict[str, list[str]]) -> None:
        assert len(expected) > 30
        assert len(expected["tuples, outer"]) == 4 + 1 + 1 + 1 + 1

    def test_in_batch(self, expected: dict[str, list[str]], tmp_path: Path) -> None:
        assert results(BatchRunner(), tmp_path) == expected

    def test_in_batch_with_small_sides(
        self, expected: dict[str, list[str]], tmp_path: Path
    ) -> None:
        assert results(BatchRunner(looks=True), tmp_path) == expected

    def test_in_streaming(self, expected: dict[str, list[str]], tmp_path: Path) -> None:
        assert results(StreamingRunner(), tmp_path, "", "--streaming") == expected

    @pytest.mark.part(3)
    @pytest.mark.parametrize("only", ["sliding", "odd", "none on the"])
    def test_on_spark(
        self, only: str, expected: dict[str, list[str]], spark: Any, tmp_path: Path
    ) -> None:
        ship(spark, equijoins.__file__, module=True)
        of_these = {label: texts for label, texts in expected.items() if only in label}
        assert results(SparkRunner(spark), tmp_path, only) == of_these


SIDES = st.lists(st.sampled_from([0, 1, 2, None, 1.0, True, "", (1,)]), max_size=9)


class TestModel:
    @settings(max_examples=6)
    @given(SIDES, SIDES, st.sampled_from(HOWS), st.booleans())
    def test_pairs_are_those_of_a_nested_loop(
        self, left: list[Any], right: list[Any], how: str, looks: bool
    ) -> None:
        def same(one: Any, other: Any) -> bool:
            return type(one) is type(other) and one == other

        expected = matched(left, right, how, same)
        with beam.Pipeline(BatchRunner(looks=looks), options=PipelineOptions([])) as p:
            sides = (
                p | "left" >> beam.Create(left, reshuffle=False),
                p | "right" >> beam.Create(right, reshuffle=False),
            )
            joined = sides | Join(
                on=lambda e: e, how=how, result=lambda key, one, other: (one, other)
            )
            assert_that(joined | beam.Map(repr), equal_to([repr(pair) for pair in expected]))


class TestOn:
    def test_a_pcollection_may_be_both_sides(self) -> None:
        with beam.Pipeline(BatchRunner(), options=PipelineOptions([])) as p:
            numbers = p | beam.Create([1, 2, 2])
            joined = (numbers, numbers) | Join(on=lambda e: e)
            twos = [(2, (2, 2))] * 4
            assert_that(joined, equal_to([(1, (1, 1)), *twos]))

    def test_a_key_that_is_missing_is_told_with_the_side(self) -> None:
        p = beam.Pipeline(BatchRunner())
        sides = {"sales": p | beam.Create([{"id": 1}]), "items": p | "i" >> beam.Create([{}])}
        sides | Join(on="id")
        with pytest.raises(PipelineFailed, match=r"Join/Key items.*KeyError"):
            p.run().wait_until_finish()


class TestOnSpark:
    @pytest.mark.part(5)
    @pytest.mark.parametrize("how", HOWS)
    @pytest.mark.parametrize("broadcast", ["auto", "never", "l", "r"])
    def test_elements_and_metrics_come_out_once(self, how: str, broadcast: str, spark: Any) -> None:
        if broadcast in ("l", "r") and (
            how == "outer" or ((how == "right") is not (broadcast == "l") and how != "inner")
        ):
            return
        ship(spark, equijoins.__file__, module=True)
        p = beam.Pipeline(SparkRunner(spark))
        ones, others = [1, 1, 2, 3], [1, 2, 2, 5]
        left = p | "left" >> beam.Create(ones) | "a" >> beam.Map(equijoins.counted)
        right = p | "right" >> beam.Create(others) | "b" >> beam.Map(equijoins.counted)
        joined = {"l": left, "r": right} | Join(
            on=lambda e: e,
            how=how,
            broadcast=broadcast,
            result=lambda key, one, other: (one, other),
        )
        assert_that(joined, equal_to(matched(ones, others, how)))
        result: Any = p.run()
        result.wait_until_finish()
        assert seen(result) == [4, 4]
        explanation = result.explain()
        wanted = {"never": "SortMergeJoin", "l": "BuildLeft", "r": "BuildRight"}.get(broadcast)
        assert wanted is None or wanted in explanation.spark
        assert "    join   " in explanation.joins
        if broadcast in ("l", "r"):
            side = {"l": "left", "r": "right"}[broadcast]
            assert "join   broadcast:" in explanation.joins
            assert f"    {side:5}  broadcast, " in explanation.joins
            assert "not shuffled" in explanation.joins

    def test_a_key_with_many_elements_is_divided(self, spark: Any) -> None:
        ship(spark, equijoins.__file__, module=True)
        p = beam.Pipeline(SparkRunner(spark), options=PipelineOptions([]))
        shares = p | beam.Create(range(8)) | beam.Reshuffle()
        left = shares | "many" >> beam.FlatMap(equijoins.mostly_seven)
        right = p | "few" >> beam.Create(range(1000)) | beam.Map(equijoins.counted)
        joined = (left, right) | Join(on=lambda e: e, broadcast="never")
        assert_that(joined | beam.combiners.Count.Globally(), equal_to([8 * 20_000]))
        skew = "spark.sql.adaptive.skewJoin.skewedPartition"
        small = {
            f"{skew}Factor": "2",
            f"{skew}ThresholdInBytes": "10k",
            "spark.sql.adaptive.advisoryPartitionSizeInBytes": "10k",
        }
        with settings_for_now(spark, small):
            result: Any = p.run()
            result.wait_until_finish()
        assert "SortMergeJoin(skew=true)" in result.explain().spark
        assert "1 of them too large, divided into" in result.explain().joins
        assert seen(result) == [1000]

    def test_before_a_run_the_plan_says_how_it_joins(self, spark: Any) -> None:
        p = beam.Pipeline(SparkRunner(spark), options=PipelineOptions([]))
        sides = p | "left" >> beam.Create([1]), p | "right" >> beam.Create([1])
        sides | Join(on=lambda e: e, how="semi")
        found = SparkRunner(spark).explain(p)
        assert "3 stages, 0 shuffles, 1 join, 1 persisted" in found.stages
        assert "joined by Spark: matched elements of the left side;" in found.stages
        assert "LeftSemi" in found.spark
        assert not found.joins
