"""The page of the history, also as a browser shows it."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsers import PHONE, WIDE, chromium, fits, requested, show
from golden_files import Golden
from pasts import SHORT, a_past, planted
from runs import a_run
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from beam_nexmark.configuration import Configuration
from beam_nexmark.record import PASSED, QueryRun
from beam_nexmark.report import Workload, render


def text_of(runs: list[QueryRun], folder: Path) -> str:
    """The page without its style, its specifications of charts and the libraries in it."""
    render(runs, folder / "report.html")
    body = (folder / "report.html").read_text().split("<script>")[0].partition("<body>")[2]
    return re.sub(r"(?s)<script type.*?</script>\n", "", body)


class TestPage:
    def test_it_has_workloads_changes_figures_and_what_runs_where(
        self, tmp_path: Path, golden: Golden
    ) -> None:
        common: dict[str, Any] = {
            "configuration": Configuration(events=1000).as_dict(),
            "machine": "a machine",
        }
        special = Configuration(events=1000, generators=7).as_dict()
        old = {"failure": "ValueError: once", "seconds": None, "started": "2025-01-01T00:00:00+00"}
        runs = [
            *a_past(queries=[2, 3, 6, 12], plant=planted, **common),
            a_run(**common, query=4, failure="ValueError: <no>", seconds=None),
            *(a_run(**common, **old), a_run(**common, checked=PASSED, runner="FnApiRunner")),
            *(a_run(**common, query=7), a_run(**common, query=7, results=428)),
            a_run(configuration=special, machine="a machine"),
        ]
        golden("report.html", text_of(runs, tmp_path))

    def test_a_history_of_one_build_has_a_point_for_each_runner(self) -> None:
        other = a_past(queries=[3], commits=1, runner="FnApiRunner")
        (panel,) = Workload("", [*a_past(queries=[3], commits=1), *other]).panels.values()
        assert len(panel["datasets"][panel["data"]["name"]]) == 2

    def test_a_panel_has_a_gap_where_a_query_failed_and_both_runners(self) -> None:
        other = a_past(queries=[3], runner="FnApiRunner")
        (panel,) = Workload("", [*a_past(queries=[3], plant=planted), *other]).panels.values()
        rows = panel["datasets"][panel["data"]["name"]]
        ours = [row for row in rows if row["contestant"] == "sparkbeam"]
        assert [row["build"] for row in ours if row["median"] is None] == SHORT[5:7]
        assert len(rows) == 24
        assert all(row["low"] <= row["median"] <= row["high"] for row in rows if row["median"])

    def test_machines_are_told_apart_where_there_are_several(self) -> None:
        runs = [*a_past(queries=[3]), *a_past(queries=[3], machine="another")]
        (panel,) = Workload("", runs).panels.values()
        rows = panel["datasets"][panel["data"]["name"]]
        wanted = {"sparkbeam, a machine", "sparkbeam, another"}
        assert {row["contestant"] for row in rows} == wanted

    def test_a_history_of_failures_alone_has_no_pictures(self, tmp_path: Path) -> None:
        page = text_of([a_run(failure="ValueError: no", seconds=None)], tmp_path)
        assert 'class="panel"' not in page
        assert "failed: ValueError: no" in page


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A browser."""
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    failure = "ValueError: cannot encode " + 20 * "a_very_long_word_of_a_reason"
    failed = a_run(query=4, failure=failure, seconds=None)
    render([*a_past(commits=2), *a_past(commits=2, runner="FnApiRunner"), failed], path)
    return path


@pytest.mark.parametrize("width", [WIDE, PHONE])
def test_a_browser_draws_a_panel_for_each_query_within_the_window_and_asks_nobody(
    browser: Any, page: Path, width: int
) -> None:
    show(browser, page.as_uri(), width)
    panels = ".panel svg"
    WebDriverWait(browser, 30).until(
        lambda found: len(found.find_elements(By.CSS_SELECTOR, panels)) == 17
    )
    for panel in browser.find_elements(By.CSS_SELECTOR, panels):
        assert panel.size["width"] > 200
        assert len(panel.find_elements(By.CSS_SELECTOR, ".mark-line path")) >= 2
    assert {url.split(":")[0] for url in requested(browser)} <= {"file", "data"}
    assert fits(browser, width)
    wider = "p => p.querySelector('svg').getBoundingClientRect().width > p.clientWidth + 1"
    overflowing = "t => getComputedStyle(t.parentElement).overflowX !== 'auto'"
    for what, is_bad in ((".panel", wider), ("table", overflowing)):
        found = f"[...document.querySelectorAll('{what}')].filter({is_bad}).length"
        assert browser.execute_script(f"return {found}") == 0
