"""Query 10, log to sharded files: events of each window.

Each window's events are written to several log files, and an index of these is written when the
window is complete. A shard starts another file whenever it has many events, and late events go to
separate files.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple
from zlib import crc32

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems
from apache_beam.transforms.trigger import (
    AccumulationMode,
    AfterAny,
    AfterCount,
    AfterProcessingTime,
    AfterWatermark,
)
from apache_beam.transforms.window import FixedWindows, IntervalWindow
from apache_beam.utils.windowed_value import PaneInfo, PaneInfoTiming

from beam_nexmark.configuration import Configuration
from beam_nexmark.event_files import json_line
from beam_nexmark.events import Event
from beam_nexmark.queries.query import Query

LATE_BATCHING_PERIOD = 10
ALLOWED_LATENESS = 24 * 60 * 60
"""Period of late firings and allowed lateness, in seconds."""


class LogFile(NamedTuple):
    """One file of a shard."""

    name: str
    lines: int
    checksum: int


class LoggedWindow(NamedTuple):
    """The log of a window.

    Attributes:
        end: the end of the window, in ms since the epoch.
        lines: the number of events in its files.
        checksum: the sum of the CRC-32 of all lines.
    """

    end: int
    lines: int
    checksum: int


class WriteLogFn(beam.DoFn):
    """Writer of the lines of a shard to a file; emits a LogFile.

    Args:
        folder: the folder of the files; None only counts.
    """

    def __init__(self, folder: str | None, shards: int) -> None:
        super().__init__()
        self._folder = folder
        self._shards = shards

    def process(
        self,
        element: tuple[int, Iterable[str]],
        window: Any = beam.DoFn.WindowParam,
        pane: Any = beam.DoFn.PaneInfoParam,
    ) -> Iterator[LogFile]:
        shard, lines = element
        name = f"LOG-{_end(window)}-{shard:05d}-of-{self._shards:05d}-{_pane_name(pane)}"
        count, checksum = 0, 0
        for line in lines:
            count += 1
            checksum += crc32(line.encode())
        if count:
            _write(self._folder, name, lines)
            yield LogFile(name, count, checksum)


class WriteIndexFn(beam.DoFn):
    """Writer of the names of a window's files to its index; emits a LoggedWindow.

    Args:
        folder: the folder of the files; None only counts.
    """

    def __init__(self, folder: str | None) -> None:
        super().__init__()
        self._folder = folder

    def process(
        self, element: tuple[None, Iterable[LogFile]], window: Any = beam.DoFn.WindowParam
    ) -> Iterator[LoggedWindow]:
        files = sorted(element[1])
        _write(self._folder, f"INDEX-{_end(window)}", [file.name for file in files])
        yield LoggedWindow(
            _end(window), sum(file.lines for file in files), sum(file.checksum for file in files)
        )


def build(events: beam.PCollection[Any], configuration: Configuration) -> beam.PCollection[Any]:
    """Return a LoggedWindow per fixed window; the files are in ``log_folder``, if it is set."""
    shards, many = configuration.log_shards, AfterCount(configuration.max_log_events)

    def by_shard(event: Event) -> tuple[int, str]:
        line = json_line(event)
        return crc32(line.encode()) % shards, line

    return (
        events
        | "By shard" >> beam.Map(by_shard)
        | "Files"
        >> beam.WindowInto(
            FixedWindows(configuration.window_size),
            trigger=AfterWatermark(
                early=many, late=AfterAny(many, AfterProcessingTime(LATE_BATCHING_PERIOD))
            ),
            accumulation_mode=AccumulationMode.DISCARDING,
            allowed_lateness=ALLOWED_LATENESS,
        )
        | "Group" >> beam.GroupByKey()
        | "Write" >> beam.ParDo(WriteLogFn(configuration.log_folder, shards))
        | "Windows"
        >> beam.WindowInto(
            FixedWindows(configuration.window_size), allowed_lateness=ALLOWED_LATENESS
        )
        | "Together" >> beam.WithKeys(None)
        | "Group files" >> beam.GroupByKey()
        | "Index" >> beam.ParDo(WriteIndexFn(configuration.log_folder))
    )


def _end(window: IntervalWindow) -> int:
    return int(window.end.micros // 1000)


def _pane_name(pane: PaneInfo) -> str:
    return f"{pane.index:03d}-{PaneInfoTiming.to_string(pane.timing)}"


def _write(folder: str | None, name: str, lines: Iterable[str]) -> None:
    if folder is None:
        return
    with FileSystems.create(FileSystems.join(folder, name)) as file:
        for line in lines:
            file.write(line.encode() + b"\n")


QUERY = Query(
    number=10,
    name="log to sharded files",
    question="What happened in each window? It is logged to files.",
    build=build,
)
