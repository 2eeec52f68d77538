"""Which runners are found on this machine, and what is known that they cannot do."""

import platform
from pathlib import Path

import pytest
from apache_beam.runners.portability import prism_runner
from apache_beam.runners.portability.prism_runner import PrismJobServer
from runs import a_run

from beam_nexmark import available_runners
from beam_nexmark.available_runners import AvailableRunner, found
from beam_nexmark.known_limits import limit_of
from beam_nexmark.report import render

PROGRAM = "apache_beam-v1.2.3-prism-linux-amd64"


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where Beam would keep Prism."""
    monkeypatch.setattr(PrismJobServer, "BIN_CACHE", str(tmp_path))
    monkeypatch.setattr(available_runners, "version", lambda name: "1.2.3")
    monkeypatch.setattr(prism_runner, "beam_version", "1.2.3")
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    return tmp_path


class TestFound:
    def test_prism_is_left_out_where_its_program_is_not(self, shelf: Path) -> None:
        (shelf / PROGRAM.replace("1.2.3", "1.2.2")).touch()
        there, left_out = found([])
        assert [place.runner for place in there] == ["SparkRunner", "FnApiRunner"]
        (line,) = left_out
        assert str(shelf) in line
        assert "--prism_location" in line

    @pytest.mark.parametrize("name", [PROGRAM, f"{PROGRAM}.zip", "prism"])
    def test_prism_is_taken_from_where_beam_keeps_it(self, shelf: Path, name: str) -> None:
        (shelf / name).touch()
        there, left_out = found([])
        assert left_out == []
        assert there[-1] == AvailableRunner("PrismRunner", [f"--prism_location={shelf / name}"])

    def test_prism_is_there_if_it_is_given(self, shelf: Path) -> None:
        there, left_out = found(["--prism_location=/opt/prism", "--other=1"])
        assert left_out == []
        assert there[-1] == AvailableRunner("PrismRunner", [])

    def test_on_a_machine_for_which_there_is_no_prism_it_is_left_out(
        self, shelf: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(platform, "machine", lambda: "s390x")
        assert len(found([])[1]) == 1


class TestPlace:
    def test_only_what_nobody_chose_runs_less(self) -> None:
        for place in (
            AvailableRunner("SparkRunner"),
            AvailableRunner("FnApiRunner", is_chosen=True),
        ):
            assert (place.events(100_000), place.repeats(3)) == (100_000, 3)
        other = AvailableRunner("FnApiRunner")
        assert (other.events(100_000), other.repeats(3)) == (10_000, 1)
        assert other.events(500) == 500


class TestLimits:
    NO_CLOCK = "AttributeError: 'NoneType' object has no attribute 'time'"

    def test_a_limit_is_that_of_a_runner_and_a_query(self) -> None:
        assert "no clock" in (limit_of("FnApiRunner", 12, self.NO_CLOCK) or "")
        assert limit_of("FnApiRunner", 11, self.NO_CLOCK) is None
        assert limit_of("FnApiRunner", 12, "ValueError: no") is None
        assert limit_of("sparkbeam.SparkRunner", 12, self.NO_CLOCK) is None

    def test_a_runner_that_loses_all_results_for_what_it_lacks_is_limited(self) -> None:
        lost = "1,919 results (c8b1) expected, but found 0 results (0000); missing: [1, 2]"
        assert "has not fired" in (limit_of("FnApiRunner", 11, lost) or "")
        assert limit_of("FnApiRunner", 11, lost.replace("found 0", "found 1")) is None

    def test_what_prism_says_it_lacks_is_a_limit_of_whatever_query(self) -> None:
        told = "_InactiveRpcError: found 1 uses of features unimplemented in prism in job job: "
        merging = 'unsupported feature "WindowingStrategy.MergeStatus" set with value NEEDS_MERGE'
        assert "merges no windows" in (limit_of("PrismRunner", 9, told + merging) or "")
        assert "lacks a feature" in (limit_of("PrismRunner", 3, told) or "")
        assert limit_of("PrismRunner", 3, "RuntimeError: The pipeline ended as FAILED.") is None

    def test_the_page_tells_it_apart_from_a_failure(self, tmp_path: Path) -> None:
        unable = {"seconds": None, "failure": self.NO_CLOCK, "results": None, "digest": None}
        runs = [a_run(query=12, **unable, lacks="it has no <clock>"), a_run(query=3)]
        render(runs, tmp_path / "page.html")
        page = (tmp_path / "page.html").read_text()
        assert "cannot: it has no &lt;clock&gt;" in page
        assert "failed: " not in page
