"""What is flagged in a history: what is planted there, and no noise."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from golden_files import Golden, sections
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


USUAL, BUSY, SLOW = (1.0, 1.01, 1.03), (3.0, 3.01, 3.02), (2.0, 2.02, 2.04)
IS_BUSY = steps(*[USUAL] * 3, *[BUSY] * 3)
PACED = [replace(run, pace=0.03 * (run.seconds or 0)) for run in IS_BUSY]
GAP = steps(*[USUAL] * 3, (1.0,), *[SLOW] * 3)
TWO, THREE = steps([1.0], [1.0]), steps([1.0], [1.0], [1.0])


def failed(run: QueryRun) -> QueryRun:
    return replace(run, seconds=None, failure="no")


HISTORIES: dict[str, Sequence[QueryRun]] = {
    "what is planted in seventeen queries": a_past(plant=planted),
    "a busy machine for one commit": steps(*[USUAL] * 3, (1.6, 1.61, 1.62), *[USUAL] * 2),
    "nothing tells yet that it passes": steps(*[USUAL] * 3, (1.6, 1.61, 1.62)),
    "a machine that is busy for good": PACED,
    "the same with the pace of an idle one": [replace(run, pace=0.03) for run in IS_BUSY],
    "it is not known how busy it was": [*IS_BUSY[:9], *PACED[9:]],
    "few repeats, and growth by less than a half": steps([1.0], [1.0], [1.0], [1.4]),
    "few repeats, and growth by more": steps([1.0], [1.0], [1.0], [1.6]),
    "what changed is the usual from then on": steps(*[USUAL] * 4, *[SLOW] * 4, *[USUAL] * 4),
    "a gap does not hide a slowdown": [
        failed(run) if run.started[9] == "4" else run for run in GAP
    ],
    "another result": [TWO[0], replace(TWO[1], results=428)],
    "another result that is right": [TWO[0], replace(TWO[1], results=428, checked=PASSED)],
    "a failure between does not hide another result": [
        *(THREE[0], failed(THREE[1]), replace(THREE[2], results=428)),
    ],
}


class TestChanges:
    def test_of_each_history_what_changed_is_flagged(self, golden: Golden) -> None:
        found = {name: map(str, changes_in(runs)) for name, runs in HISTORIES.items()}
        golden("changes.txt", sections(found))

    def test_what_is_planted_is_found_where_the_noise_is_another(self) -> None:
        wanted = [(2, Verdict.FASTER), (6, Verdict.SLOWER)]
        for seed in range(20):
            runs = a_past(seed, noise=0.04, queries=[2, 6, 7], plant=planted)
            found = changes_in(runs)
            assert [(one.series.first.query, one.verdict) for one in found] == wanted, seed

    def test_noise_alone_is_no_change_in_fifty_histories(self) -> None:
        for seed in range(50):
            assert changes_in(a_past(seed, noise=0.05)) == [], seed


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
