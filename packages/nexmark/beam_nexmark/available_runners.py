"""Runners that are available on this machine without a service or a download."""

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from apache_beam.options.pipeline_options import PipelineOptions, PrismRunnerOptions
from apache_beam.runners.portability.prism_runner import PrismJobServer

OTHER_EVENTS = 10_000
"""Maximum number of events for other runners that the user has not chosen."""


@dataclass(frozen=True)
class AvailableRunner:
    """An available runner.

    Attributes:
        runner: its name for ``--runner``.
        is_chosen: whether the user named it; other runners than sparkbeam's run less otherwise.
    """

    runner: str
    options: Sequence[str] = ()
    is_chosen: bool = False

    def events(self, wanted: int) -> int:
        """Return the number of events to run over, out of ``wanted`` ones."""
        return wanted if self._runs_all else min(wanted, OTHER_EVENTS)

    def repeats(self, wanted: int) -> int:
        """Return the number of repeats of each query, out of ``wanted`` ones."""
        return wanted if self._runs_all else 1

    @property
    def _runs_all(self) -> bool:
        return self.is_chosen or self.runner == "SparkRunner"


def named(runners: Sequence[str]) -> tuple[list[AvailableRunner], list[str]]:
    """Return the runners named by the user, without leaving out any."""
    return [AvailableRunner(runner, is_chosen=True) for runner in runners], []


def found(options: Sequence[str]) -> tuple[list[AvailableRunner], list[str]]:
    """Return the runners of this machine, and a line with the reason for each that is left out.

    Args:
        options: the user's options for the runners.
    """
    places = [AvailableRunner("SparkRunner"), AvailableRunner("FnApiRunner")]
    program = _prism(options)
    if program is None:
        return places, [
            f"PrismRunner is skipped: its program is not in '{_shelf()}', and nothing is "
            "downloaded automatically. Give --prism_location, or name the runner with --runners."
        ]
    return [*places, AvailableRunner("PrismRunner", program)], []


def _prism(options: Sequence[str]) -> list[str] | None:
    """Return the options that locate Prism's program; None if it is missing."""
    if PipelineOptions(list(options)).view_as(PrismRunnerOptions).prism_location:
        return []
    server = PrismJobServer(PipelineOptions([]))
    here = platform.system(), platform.machine()
    try:
        name = Path(server.construct_download_url(f"v{version('apache-beam')}", *here)).name
    except ValueError:
        return None
    for there in (name.removesuffix(".zip"), name, "prism"):
        if (_shelf() / there).is_file():
            return [f"--prism_location={_shelf() / there}"]
    return None


def _shelf() -> Path:
    """Return the folder in which Beam keeps a downloaded or built Prism."""
    return Path(PrismJobServer.BIN_CACHE)
