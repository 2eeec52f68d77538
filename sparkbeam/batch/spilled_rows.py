"""Files spilled by tasks, kept until the run ends; see :mod:`sparkbeam.plan.spilled`."""

import functools
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from sparkbeam.common.temporary_folders import RunFolder
from sparkbeam.wire.reports import TaskReport


class SpilledFiles:
    """Spilled files of a run.

    Args:
        under: the folder for large files; None for the default.
    """

    def __init__(self, under: Path | None) -> None:
        self._under = under
        self._found: dict[int, list[str]] = defaultdict(list)

    @functools.cached_property
    def _folder(self) -> RunFolder:
        return RunFolder("kept", self._under)

    @property
    def folder(self) -> str:
        """Target folder of the tasks."""
        return self._folder.name

    def add_reports(self, reports: Iterable[bytes]) -> None:
        """Record the files of tasks whose output Spark has accepted."""
        for report in reports:
            for tag, name in TaskReport.parse(report).kept:
                self._found[tag].append(name)

    def paths(self, tag: int) -> tuple[str, ...]:
        """Return the file paths of a port, in the order of the tasks that wrote them."""
        return tuple(str(Path(self.folder, name)) for name in sorted(self._found[tag]))

    def close(self) -> None:
        """Remove the files."""
        if "_folder" in vars(self):
            self._folder.cleanup()
