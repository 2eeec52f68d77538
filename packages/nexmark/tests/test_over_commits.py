"""What is flagged in a history: what is planted there, and no noise."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from pasts import SHORT, a_past, planted
from runs import a_run, runs_of

from beam_nexmark.changes import Change, Verdict, changes, slowdown
from beam_nexmark.record import PASSED, QueryRun
from beam_nexmark.series import builds, series


def changes_in(runs: Sequence[QueryRun]) -> list[Change]:
    return [change for one in series(runs) for change in changes(one)]


def steps(*times: Sequence[float], **common: object) -> list[QueryRun]:
    """Runs of query 3 on commits that follow each other, with these times of its repeats."""
    return [
        run
        for number, seconds in enumerate(times)
        for run in runs_of(
            *seconds,
            revision=f"{number:040x}"[::-1],
            started=f"2026-01-{number + 1:02}T00:00:00+00:00",
            **common,
        )
    ]


class TestSeries:
    def test_a_clean_commit_is_one_build_however_often_it_runs(self) -> None:
        again = replace(a_past(queries=[6], commits=1)[0], started="2027-01-01T00:00:00+00:00")
        (one,) = series([*a_past(queries=[6]), again])
        assert [point.build for point in one.points] == SHORT[:12]
        assert len(one.points[0].runs) == 4

    def test_without_a_clean_commit_each_invocation_is_a_build(self) -> None:
        runs = [a_run(), a_run(started="2026-01-03T00:00:00+00:00"), a_run(revision="1d6d982a+")]
        assert builds(runs) == [
            "0.1.0 2026-01-02 03:04",
            "1d6d982+ 2026-01-02 03:04",
            "0.1.0 2026-01-03 00:00",
        ]

    @pytest.mark.parametrize(
        "other",
        [
            {"machine": "another"},
            {"cores": 3},
            {"runner": "FnApiRunner"},
            {"mode": "streaming"},
            {"configuration": {"events": 7}},
        ],
    )
    def test_only_equal_conditions_are_compared(self, other: dict[str, object]) -> None:
        assert len(series([a_run(), a_run(**other)])) == 2

    def test_a_build_of_which_a_repeat_failed_has_no_runtime(self) -> None:
        (one,) = series([a_run(), a_run(seconds=None, failure="no")])
        assert one.points[0].median is None


class TestChanges:
    def test_exactly_what_is_planted_is_flagged(self) -> None:
        found = [str(change) for change in changes_in(a_past(plant=planted))]
        assert found == [
            f"q2 -50 % at {SHORT[8]}",
            f"q3 fails now at {SHORT[5]}: ValueError: no",
            f"q3 runs now at {SHORT[7]}",
            f"q6 +40 % at {SHORT[7]}",
            f"q12 wrong result at {SHORT[9]}: 580 results expected, but found 7",
        ]

    def test_what_is_planted_is_found_where_the_noise_is_another(self) -> None:
        wanted = [(2, Verdict.FASTER), (6, Verdict.SLOWER)]
        for seed in range(20):
            runs = a_past(seed, noise=0.04, queries=[2, 6, 7], plant=planted)
            found = changes_in(runs)
            assert [(one.series.first.query, one.verdict) for one in found] == wanted, seed

    def test_noise_alone_is_no_change_in_fifty_histories(self) -> None:
        for seed in range(50):
            assert changes_in(a_past(seed, noise=0.05)) == [], seed

    def test_a_busy_machine_for_one_commit_is_no_change(self) -> None:
        usual, busy = (1.0, 1.01, 1.03), (1.6, 1.61, 1.62)
        assert changes_in(steps(usual, usual, usual, busy, usual, usual)) == []
        (change,) = changes_in(steps(usual, usual, usual, busy))
        assert change.verdict is Verdict.SLOWER, "nothing tells yet that it passes"

    def test_a_machine_that_is_busy_for_good_is_no_change(self) -> None:
        usual, busy = (1.0, 1.01, 1.03), (3.0, 3.01, 3.02)
        runs = steps(usual, usual, usual, busy, busy, busy)
        paced = [replace(run, pace=0.03 * (run.seconds or 0)) for run in runs]
        assert changes_in(paced) == []
        assert changes_in([replace(run, pace=0.03) for run in runs])
        assert changes_in([*runs[:9], *paced[9:]]), "of the past it is not known how busy it was"

    def test_few_repeats_need_a_growth_by_half(self) -> None:
        assert changes_in(steps([1.0], [1.0], [1.0], [1.4])) == []
        assert len(changes_in(steps([1.0], [1.0], [1.0], [1.6]))) == 1

    def test_what_changed_is_the_usual_from_then_on(self) -> None:
        fast, slow = (1.0, 1.01, 1.02), (2.0, 2.02, 2.04)
        found = changes_in(steps(*[fast] * 4, *[slow] * 4, *[fast] * 4))
        assert [change.verdict for change in found] == [Verdict.SLOWER, Verdict.FASTER]

    def test_a_gap_does_not_hide_a_slowdown(self) -> None:
        runs = steps(*[(1.0, 1.01, 1.02)] * 3, (1.0,), *[(2.0, 2.01, 2.02)] * 3)
        gap = [
            replace(run, seconds=None, failure="no") if run.started[9] == "4" else run
            for run in runs
        ]
        verdicts = [change.verdict for change in changes_in(gap)]
        assert verdicts == [Verdict.FAILS, Verdict.REPAIRED, Verdict.SLOWER]

    def test_another_result_is_a_change_unless_it_was_checked(self) -> None:
        runs = steps([1.0], [1.0])
        other = [runs[0], replace(runs[1], results=428)]
        (change,) = changes_in(other)
        assert "result changed at" in str(change)
        assert "428" in str(change)
        assert changes_in([runs[0], replace(runs[1], results=428, checked=PASSED)]) == []

    def test_a_failure_between_does_not_hide_another_result(self) -> None:
        runs = steps([1.0], [1.0], [1.0])
        failed = replace(runs[1], seconds=None, failure="no")
        found = changes_in([runs[0], failed, replace(runs[2], results=428)])
        assert [change.verdict for change in found] == [Verdict.FAILS, Verdict.CHANGED]


class TestSlowdown:
    @pytest.mark.parametrize(
        ("before", "now", "wanted"),
        [
            ([[1.0]] * 3, [1.5], 0.5),
            ([[1.0]] * 3, [1.5, 1.4, 1.6], 0.4),
            ([[1.0]] * 3, [1.5, 1.2], None),
            ([[1.0]] * 2, [9.0], None),
            ([[0.4]] * 5, [0.69], None),
            ([[9.0], [1.0], [0.9], [1.1], [9.0, 1.0, 1.0], [0.8]], [1.5], 0.5),
        ],
    )
    def test_it_is_the_growth_of_the_fastest_run_over_the_usual_one(
        self, before: list[list[float]], now: list[float], wanted: float | None
    ) -> None:
        runs = steps(*before, now)
        found = slowdown(runs[: -len(now)], runs[-len(now) :], 0.3)
        assert found == (wanted if wanted is None else pytest.approx(wanted))

    def test_a_failed_run_is_no_slowdown(self) -> None:
        runs = steps([1.0], [1.0], [1.0], [9.0])
        failed = replace(runs[-1], seconds=None, failure="no")
        assert slowdown(runs[:-1], [failed], 0.3) is None

    def test_noise_is_no_slowdown_and_growth_by_a_half_is_one(self) -> None:
        for seed in range(50):
            *past, last = a_past(seed, noise=0.1, queries=[6], commits=6, repeats=1)
            now = [replace(last, seconds=(last.seconds or 0) * factor) for factor in (1, 0.9, 1.1)]
            assert slowdown(past, now, 0.3) is None, seed
        for seed in range(50):
            *past, last = a_past(seed, noise=0.04, queries=[6], commits=6, repeats=1)
            now = [replace(last, seconds=(last.seconds or 0) * 1.5)] * 3
            assert slowdown(past, now, 0.3), seed
