"""The page of the history, also as a browser shows it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsers import PHONE, WIDE, chromium, resize
from pasts import SHORT, a_past, planted
from runs import a_run, runs_of
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from beam_nexmark.configuration import Configuration
from beam_nexmark.record import PASSED, QueryRun
from beam_nexmark.report import render
from beam_nexmark.report.runtimes import Past
from sparkbeam.errors import ConfigurationError


def a_history() -> list[QueryRun]:
    """Queries 0 to 16 on two runners and two versions; one fails, one changes its result."""
    runs = []
    for query in range(17):
        for version in ("0.1.0", "0.2.0"):
            common = {
                "query": query,
                "name": "what it does in words",
                "configuration": Configuration(events=1000).as_dict(),
                "results": 10 ** (query % 6),
                "sparkbeam": version,
                "started": f"2026-01-0{version[2]}T03:04:05+00:00",
            }
            runs += runs_of(1.0 + query, 1.1 + query, 1.5 + query, **common, checked=PASSED)
            runs += runs_of(4.0, 4.5, **{**common, "runner": "FnApiRunner"})
    broken = {"name": "what it does in words", "started": "2026-01-03T00:00:00+00:00"}
    settings = Configuration(events=1000).as_dict()
    failure = "ValueError: cannot encode " + 20 * "a_very_long_word_of_a_reason"
    runs.append(a_run(query=4, failure=failure, seconds=None, **broken, configuration=settings))
    runs.append(a_run(query=9, results=7, **broken, configuration=settings))
    return runs


def text_of(runs: list[QueryRun], folder: Path) -> str:
    """The page without the libraries in it."""
    render(runs, folder / "report.html")
    return (folder / "report.html").read_text().split("<script>")[0]


class TestPage:
    def test_it_says_what_ran_where_and_why_not(self, tmp_path: Path) -> None:
        failed = a_run(query=4, failure="ValueError: <no>", seconds=None)
        right = a_run(runner="FnApiRunner", checked=PASSED)
        page = text_of([a_run(), failed, right], tmp_path)
        assert "failed: ValueError: &lt;no&gt;" in page
        assert "ran, results right" in page
        assert "ran, results unchecked" in page
        assert "not tried" in page

    def test_the_last_run_is_what_counts(self, tmp_path: Path) -> None:
        old = a_run(failure="ValueError: once", seconds=None, started="2025-01-01T00:00:00+00:00")
        assert "failed: ValueError: once" not in text_of([a_run(), old], tmp_path)

    def test_it_says_whether_results_are_the_same_in_all_runs(self, tmp_path: Path) -> None:
        same, other = a_run(), a_run(results=428)
        assert "the same results in all of its runs" in text_of([same, same], tmp_path)
        changed = text_of([same, other], tmp_path)
        assert "Not all runs gave the same results" in changed
        assert "580" in changed
        assert "428" in changed

    def test_only_what_ran_under_the_same_settings_shares_a_picture(self, tmp_path: Path) -> None:
        usual = a_run(configuration=Configuration(events=1000).as_dict())
        special = Configuration(events=1000, generators=7).as_dict()
        page = text_of([usual, a_run(configuration=special)], tmp_path)
        assert "<h2>1,000 events, batch</h2>" in page
        assert "<h2>1,000 events, batch, generators 7</h2>" in page

    def test_what_changed_over_commits_stands_above_the_panels(self, tmp_path: Path) -> None:
        page = text_of(a_past(plant=planted), tmp_path)
        assert f"q6 +40 % at {SHORT[7]} (sparkbeam)" in page
        assert page.index("q12 wrong result") < page.index("q2 -50 %"), "the newest first"
        assert page.count('class="panel"') == 17

    def test_a_history_of_one_build_has_a_point_for_each_runner(self) -> None:
        other = a_past(queries=[3], commits=1, runner="FnApiRunner")
        (panel,) = Past([*a_past(queries=[3], commits=1), *other]).panels.values()
        assert len(panel["datasets"][panel["data"]["name"]]) == 2

    def test_a_panel_has_a_gap_where_a_query_failed_and_both_runners(self) -> None:
        other = a_past(queries=[3], runner="FnApiRunner")
        (panel,) = Past([*a_past(queries=[3], plant=planted), *other]).panels.values()
        rows = panel["datasets"][panel["data"]["name"]]
        ours = [row for row in rows if row["contestant"] == "sparkbeam"]
        assert [row["build"] for row in ours if row["median"] is None] == SHORT[5:7]
        assert len(rows) == 24
        assert all(row["low"] <= row["median"] <= row["high"] for row in rows if row["median"])

    def test_machines_are_told_apart_where_there_are_several(self) -> None:
        runs = [*a_past(queries=[3]), *a_past(queries=[3], machine="another")]
        (panel,) = Past(runs).panels.values()
        rows = panel["datasets"][panel["data"]["name"]]
        wanted = {"sparkbeam, a machine", "sparkbeam, another"}
        assert {row["contestant"] for row in rows} == wanted

    def test_a_history_of_failures_alone_has_no_pictures(self, tmp_path: Path) -> None:
        page = text_of([a_run(failure="ValueError: no", seconds=None)], tmp_path)
        assert 'class="panel"' not in page
        assert "failed: ValueError: no" in page

    def test_an_empty_history_is_told(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigurationError, match="no runs to report"):
            render([], tmp_path / "report.html")

    def test_a_place_that_cannot_be_written_is_told(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigurationError, match="Cannot write"):
            render([a_run()], tmp_path / "none" / "report.html")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A browser."""
    with chromium() as started:
        yield started


@pytest.mark.parametrize("width", [WIDE, PHONE])
def test_a_browser_shows_a_panel_for_each_query(browser: Any, tmp_path: Path, width: int) -> None:
    page = tmp_path / "report.html"
    render(a_history(), page)
    resize(browser, width)
    browser.get_log("performance")
    browser.get_log("browser")
    browser.get(page.as_uri())
    WebDriverWait(browser, 30).until(
        lambda found: len(found.find_elements(By.CSS_SELECTOR, "figure svg")) == 17
    )
    for panel in browser.find_elements(By.CSS_SELECTOR, ".panel svg"):
        assert panel.size["width"] > 200
        assert len(panel.find_elements(By.CSS_SELECTOR, ".mark-line path")) >= 2
    entries = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = {
        entry["params"]["request"]["url"]
        for entry in entries
        if entry["method"] == "Network.requestWillBeSent"
    }
    assert {url.split(":")[0] for url in asked} <= {"file", "data"}, "not of the network"
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
    assert browser.execute_script("return innerWidth") == width
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    wider = (
        "return [...document.querySelectorAll('.panel')]"
        ".filter(p => p.querySelector('svg').getBoundingClientRect().width > p.clientWidth + 1)"
    )
    assert browser.execute_script(wider) == []
    overflowing = (
        "return [...document.querySelectorAll('table')].filter(t =>"
        " getComputedStyle(t.parentElement).overflowX !== 'auto').length"
    )
    assert browser.execute_script(overflowing) == 0, "tables scroll within themselves"
