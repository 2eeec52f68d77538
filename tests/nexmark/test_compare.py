"""When a new measurement is worse than an old one."""

import pytest
from runs import a_run, runs_of

from sparkbeam.errors import ConfigurationError
from sparkbeam.nexmark.compare import Comparison, Verdict, compared

STEADY = runs_of(1.0, 1.02, 1.04)


class TestSpeed:
    def test_the_same_times_are_the_same(self) -> None:
        assert Comparison(STEADY, STEADY).verdict is Verdict.SAME

    def test_slower_is_beyond_the_spread_and_beyond_the_tolerance(self) -> None:
        assert Comparison(STEADY, runs_of(1.2, 1.25, 1.3)).verdict is Verdict.SLOWER

    def test_a_growth_within_the_tolerance_is_no_slowdown(self) -> None:
        assert Comparison(STEADY, runs_of(1.05, 1.06, 1.07)).verdict is Verdict.SAME
        assert Comparison(STEADY, runs_of(1.05, 1.06, 1.07), 0.01).verdict is Verdict.SLOWER

    def test_a_growth_within_the_noise_is_no_slowdown(self) -> None:
        noisy = runs_of(0.9, 1.0, 1.6)
        assert Comparison(noisy, runs_of(1.5, 1.7, 1.9)).verdict is Verdict.SAME

    def test_few_runs_need_a_growth_by_half(self) -> None:
        assert Comparison(runs_of(1.0), runs_of(1.4)).verdict is Verdict.SAME
        assert Comparison(runs_of(1.0), runs_of(1.6)).verdict is Verdict.SLOWER

    def test_faster_is_no_regression(self) -> None:
        verdict = Comparison(runs_of(1.2, 1.25, 1.3), STEADY).verdict
        assert verdict is Verdict.FASTER
        assert not verdict.is_regression


class TestResults:
    def test_another_count_is_a_regression(self) -> None:
        comparison = Comparison(STEADY, [a_run(results=428)])
        assert comparison.verdict is Verdict.CHANGED
        assert comparison.verdict.is_regression
        assert "580" in comparison.explanation
        assert "428" in comparison.explanation

    def test_another_digest_is_a_regression(self) -> None:
        assert Comparison(STEADY, [a_run(digest="f" * 32)]).verdict is Verdict.CHANGED

    def test_a_result_that_is_not_always_the_same_is_a_change(self) -> None:
        new = [*STEADY, a_run(results=579)]
        assert Comparison(STEADY, new).verdict is Verdict.CHANGED

    def test_a_new_failure_is_a_regression_and_tells_its_reason(self) -> None:
        failed = a_run(seconds=None, results=None, digest=None, failure="ValueError: no")
        comparison = Comparison(STEADY, [failed])
        assert comparison.verdict.is_regression
        assert "ValueError: no" in comparison.explanation
        assert not Comparison([failed], [failed]).verdict.is_regression
        assert not Comparison([failed], STEADY).verdict.is_regression


class TestMatching:
    def test_only_the_same_configuration_is_compared(self) -> None:
        with pytest.raises(ConfigurationError, match="in common"):
            compared(STEADY, runs_of(1.0, events=10, configuration={"events": 10}))

    def test_what_only_one_file_has_is_told(self) -> None:
        verdicts = [one.verdict for one in compared([*STEADY, a_run(query=5)], STEADY)]
        assert verdicts == [Verdict.SAME, Verdict.MISSING]

    def test_queries_come_in_order_whatever_the_runner(self) -> None:
        old = [a_run(query=11), a_run(query=2)]
        new = [a_run(query=2, runner="FnApiRunner"), a_run(query=11, runner="FnApiRunner")]
        assert [one.query.query for one in compared(old, new)] == [2, 11]
