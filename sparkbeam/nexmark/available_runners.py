"""Which runners there are on this machine, without a service and without a download."""

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from apache_beam.options.pipeline_options import PipelineOptions, PrismRunnerOptions
from apache_beam.runners.portability.prism_runner import PrismJobServer

OTHER_EVENTS = 10_000
"""Over so many events at most other runners run where nobody has chosen them."""


@dataclass(frozen=True)
class Place:
    """A runner that can run.

    Attributes:
        runner: as ``--runner`` has it.
        options: what it needs beside the user's options.
        is_chosen: the user named it; if not, and it is not ours, it runs less.
    """

    runner: str
    options: Sequence[str] = ()
    is_chosen: bool = False

    def events(self, wanted: int) -> int:
        """Over how many events it runs, where ``wanted`` are asked for."""
        return wanted if self._runs_all else min(wanted, OTHER_EVENTS)

    def repeats(self, wanted: int) -> int:
        """How often it runs each query, where ``wanted`` times are asked for."""
        return wanted if self._runs_all else 1

    @property
    def _runs_all(self) -> bool:
        return self.is_chosen or self.runner == "SparkRunner"


def named(runners: Sequence[str]) -> tuple[list[Place], list[str]]:
    """The runners that the user names; none of them is left out."""
    return [Place(runner, is_chosen=True) for runner in runners], []


def found(options: Sequence[str]) -> tuple[list[Place], list[str]]:
    """The runners of this machine, and for each that is left out a line that says why.

    Args:
        options: the user's, for the runners.
    """
    places = [Place("SparkRunner"), Place("FnApiRunner")]
    program = _prism(options)
    if program is None:
        return places, [
            f"PrismRunner is left out: its program is not in '{_shelf()}'. Nothing is downloaded "
            "unasked: give --prism_location, or name it with --runners."
        ]
    return [*places, Place("PrismRunner", program)], []


def _prism(options: Sequence[str]) -> list[str] | None:
    """The options with which Beam finds Prism's program where it is; None if it is nowhere."""
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
    """Where Beam keeps Prism when it has downloaded or built it."""
    return Path(PrismJobServer.BIN_CACHE)
