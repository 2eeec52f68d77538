"""Files of a pane: written aside, then moved to their names at once.

All files of a key, window and pane are written and moved in one call, so temporary files outlive
their call only if the process is killed. Their folder has a name drawn from ``random``, which
repeats with the micro-batch: the call that runs again begins by removing it. Names of files depend
on key, window, pane and shard alone, so it then replaces files by equal ones.
"""

import copy
import random
import re
import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar, Protocol

from apache_beam.io.filebasedsink import FileBasedSink
from apache_beam.io.fileio import FileResult, FileSink
from apache_beam.io.filesystems import FileSystems
from apache_beam.transforms.core import DoFn
from apache_beam.transforms.window import BoundedWindow
from apache_beam.utils.windowed_value import PaneInfo

from sparkbeam.upstream.beam_file_sinks import FilesWrite, final_name

_EXTENSIONS = re.compile(r"(?:\.[A-Za-z]\w*)*\Z")


class Writer(Protocol):
    """An open temporary file."""

    def write(self, element: Any) -> None:
        """Write an element."""

    def at_capacity(self) -> bool:
        """Return whether later elements belong in another file."""

    def close(self) -> str:
        """Close the file and return its path."""


class WritePanes(DoFn):
    """Write the files of each key, window and pane, and emit an element for each file."""

    def __init__(self, layout: "Layout") -> None:
        super().__init__()
        self._layout = layout

    def process(
        self,
        group: tuple[Any, Iterable[Any]],
        window: Any = DoFn.WindowParam,
        pane: Any = DoFn.PaneInfoParam,
    ) -> Iterator[Any]:
        """Write the elements of a group."""
        key, elements = group
        folder = self._layout.folder(f"{random.getrandbits(128):032x}")
        _remove(folder)
        with suppress(OSError):  # Nothing is lost without it: opening a file in it fails.
            FileSystems.mkdirs(folder)
        try:
            sources = _written(self._layout, key, elements, folder)
            files = [(key, window, pane, at, len(sources)) for at in range(len(sources))]
            names = [self._layout.name(*file) for file in files]
            paths = [self._layout.path(name) for name in names]
            _move(sources, paths)
        finally:
            _remove(folder)
        for path, name, file in zip(paths, names, files, strict=True):
            FileSystems.report_sink_lineage(path)
            yield self._layout.result(name, *file)


class WriteTuples(WritePanes):
    """Write groups of tuples of elements, which may be empty."""

    def process(
        self,
        group: tuple[Any, Iterable[tuple[Any, ...]]],
        window: Any = DoFn.WindowParam,
        pane: Any = DoFn.PaneInfoParam,
    ) -> Iterator[Any]:
        """Write the elements of all tuples of a group."""
        key, tuples = group
        yield from super().process((key, chain.from_iterable(tuples)), window, pane)


def _written(layout: "Layout", key: Any, elements: Iterable[Any], folder: str) -> list[str]:
    """Write elements in turn to the shards, and return the paths in the order of the shards."""
    writers: list[Writer | None] = [None] * layout.shards
    paths: list[list[str]] = [[] for _ in writers]
    number = -1
    for number, element in enumerate(elements):
        shard = number % layout.shards
        writer = writers[shard] or layout.open(key, folder)
        writer.write(element)
        writers[shard] = writer
        if writer.at_capacity():
            paths[shard].append(writer.close())
            writers[shard] = None
    filled = layout.filled and (number >= 0 or layout.of_nothing)
    for some, last in zip(paths, writers, strict=True):
        if last is not None:
            some.append(last.close())
        elif filled and not some:
            some.append(layout.open(key, folder).close())
    return [path for some in paths for path in some]


def _move(sources: list[str], paths: list[str]) -> None:
    for folder in {FileSystems.split(path)[0] for path in paths}:
        with suppress(OSError):  # It exists, or moving into it fails.
            FileSystems.mkdirs(folder)
    size = FileSystems.get_chunk_size(paths[0]) if paths else 1
    for at in range(0, len(paths), size):
        FileSystems.rename(sources[at : at + size], paths[at : at + size])


def _remove(folder: str) -> None:
    """Remove a folder with all that is in it, if it exists."""
    with suppress(OSError):
        FileSystems.delete([folder])


def of_pane(path: str, pane: PaneInfo) -> str:
    """Return the path for the files of a pane: later ones have its number before the extensions."""
    at = _EXTENSIONS.search(path).start()  # type: ignore[union-attr]
    return f"{path[:at]}-pane-{pane.index}{path[at:]}" if pane.index else path


@dataclass(frozen=True)
class DestinationFiles:
    """Files of a ``WriteToFiles``, whose keys are destinations.

    Attributes:
        shards: the number of files that elements are distributed over.
        filled: files are written for shards without elements too.
        of_nothing: so they are if no shard has elements.
    """

    write: FilesWrite
    filled: ClassVar[bool] = False
    of_nothing: ClassVar[bool] = False

    @property
    def shards(self) -> int:
        return self.write.shards

    def folder(self, name: str) -> str:
        """Return the path of the folder for temporary files, with this name in it."""
        return FileSystems.join(self.write.temporary, f".temp{name}")

    def open(self, key: Any, folder: str) -> Writer:
        """Open a temporary file in a folder."""
        return _SinkWriter(self.write.sink(key), key, folder)

    def name(self, key: Any, window: BoundedWindow, pane: PaneInfo, at: int, count: int) -> str:
        """Return the name of a file by its position and the number of files."""
        naming = self.write.naming
        name = naming(window, pane, at, count, "", key)
        first = PaneInfo(True, pane.is_last, pane.timing, 0, 0)
        is_named = pane.index and name != naming(window, first, at, count, "", key)
        return name if is_named else of_pane(name, pane)

    def path(self, name: str) -> str:
        """Return the path of a file with a name."""
        return FileSystems.join(self.write.path, name)

    def result(self, name: str, *of: Any) -> FileResult:
        """Return the element for a file; further arguments are those of its name."""
        key, window, pane, at, count = of
        return FileResult(name, at, count, window, pane, key)


class _SinkWriter:
    """A file of a ``FileSink``."""

    def __init__(self, sink: FileSink, destination: Any, folder: str) -> None:
        self._path = FileSystems.join(folder, uuid.uuid4().hex)
        self._sink = sink
        metadata = sink.create_metadata(destination, self._path)
        self._file = FileSystems.create(self._path, **metadata._asdict())
        sink.open(self._file)

    def write(self, element: Any) -> None:
        self._sink.write(element)

    def at_capacity(self) -> bool:
        return False

    def close(self) -> str:
        self._sink.flush()
        self._file.close()
        return self._path


@dataclass(frozen=True)
class TemplateFiles:
    """Files of a ``FileBasedSink``, named by its template; its elements have one key.

    Args:
        of_nothing: files are written without elements too.
    """

    sink: FileBasedSink
    of_nothing: bool = False

    @property
    def shards(self) -> int:
        return self.sink.num_shards or 1

    @property
    def filled(self) -> bool:
        return not self.sink.skip_if_empty

    def folder(self, name: str) -> str:
        parent, prefix = FileSystems.split(self.sink.file_path_prefix.get())
        return FileSystems.join(parent, f".beam-temp-{prefix}-{name}")

    def open(self, key: Any, folder: str) -> Writer:
        # A sink has the state of one open file.
        writer: Writer = copy.copy(self.sink).open_writer(folder, uuid.uuid4().hex)
        return writer

    def name(self, key: Any, window: BoundedWindow, pane: PaneInfo, at: int, count: int) -> str:
        suffix = self.sink.file_name_suffix.get()
        name = final_name(self.sink, window, at, count).removesuffix(suffix)
        return f"{of_pane(name, pane)}{suffix}"

    def path(self, name: str) -> str:
        return name

    def result(self, name: str, *of: Any) -> str:
        return name


Layout = DestinationFiles | TemplateFiles
"""Files of a sink, by the key of their elements, its window and its pane."""
