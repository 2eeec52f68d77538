"""Assumptions about Beam's file-based sources; see :mod:`sparkbeam.upstream.beam`."""

import copy
import inspect
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, TypeAlias

from apache_beam.internal import pickler
from apache_beam.io import iobase
from apache_beam.io.filebasedsource import FileBasedSource
from apache_beam.io.filesystems import FileSystems
from apache_beam.transforms import core

from sparkbeam.common.parquet_footers import Footers
from sparkbeam.upstream.beam import function_of_map
from sparkbeam.upstream.parquet import RowGroupSource

_MOST_PARTS = 500
"""Maximum number of parts, all of which are sent to each task."""

Part: TypeAlias = tuple[tuple[iobase.BoundedSource, tuple[Any, None]], float]
"""A source, the restriction to a part, its watermark estimator state, and the part's size."""


class DividedRead(core.DoFn):
    """DoFn that emits the parts of files read by Beam's ``Read``, split like Beam splits them.

    It replaces the step that emits the source, and those that split it.

    Args:
        parts: the parts into which Beam splits it.
        footers: those of the files, if known.
    """

    def __init__(
        self, source: FileBasedSource, parts: Sequence[Part], footers: Footers | None = None
    ) -> None:
        super().__init__()
        self.source = source
        self.footers = footers
        self._parts = parts

    @property
    def size(self) -> float:
        """The size of all files, in bytes."""
        return sum(size for _, size in self._parts)

    def process(self, element: Any) -> Iterable[Part]:
        """Return all parts."""
        FileSystems.report_source_lineage(self.source._pattern.get())
        return self._parts

    def reading(self, source: FileBasedSource) -> "DividedRead":
        """Return the same parts of the same files, read by another source."""
        return DividedRead(source, [_read_by(source, part) for part in self._parts], self.footers)


def _read_by(source: FileBasedSource, part: Part) -> Part:
    (_, (restriction, estimator)), size = part
    bundle = restriction._source_bundle
    file = copy.copy(bundle.source)
    file._file_based_source = source
    of_file = iobase._SDFBoundedSourceRestriction(bundle._replace(source=file))
    return (source, (of_file, estimator)), size


def divided(source: iobase.BoundedSource | None) -> DividedRead | None:
    """Split a source into the parts of its files, as this process finds them.

    None if the source is not file-based, if it is split by a user's class, if relative paths could
    differ in another working directory, and if there are no or very many files.
    """
    if not isinstance(source, FileBasedSource) or not _is_divided_by_beam(source):
        return None
    pattern = source._pattern.get() if source._pattern.is_accessible() else ""
    if not pattern.startswith("/") and "://" not in pattern:
        return None
    provider = iobase._SDFBoundedSourceRestrictionProvider()
    # A source keeps what it has found, and would take that along.
    other = pickler.roundtrip(source)
    try:
        found = provider.split(other, provider.initial_restriction(other))
        parts = [((source, (part, None)), part.weight()) for part in islice(found, _MOST_PARTS + 1)]
    except Exception:  # Workers find it too, and tell it with the label of the step.
        return None
    if not 0 < len(parts) <= _MOST_PARTS:
        return None
    return DividedRead(source, parts, other.footers if isinstance(other, RowGroupSource) else None)


def _is_divided_by_beam(source: FileBasedSource) -> bool:
    return type(source).split.__module__.split(".")[0] in ("apache_beam", "sparkbeam")


def source_of_read(fn: Any) -> iobase.BoundedSource | None:
    """Return the source that a step of Beam's ``Read`` emits, or splits; None for other DoFns."""
    if isinstance(fn, DividedRead):
        return fn.source
    read = _read_of(fn)
    source = None if read is None else read.source
    return source if isinstance(source, iobase.BoundedSource) else None


def size_of_read(fn: Any) -> float | None:
    """Return the bytes of the files that a step of Beam's ``Read`` reads.

    None for other steps, or if this process cannot see the files.
    """
    if isinstance(fn, DividedRead):
        return fn.size
    source = source_of_read(fn)
    if not isinstance(source, FileBasedSource) or not _is_divided_by_beam(source):
        return None
    try:
        return pickler.roundtrip(source).estimate_size()
    except Exception:
        return None


def with_source(fn: core.DoFn, source: FileBasedSource) -> core.DoFn:
    """Return the step with another source, which reads the same files in the same parts."""
    if isinstance(fn, DividedRead):
        return fn.reading(source)
    other: core.DoFn = pickler.roundtrip(fn)
    read = _read_of(other)
    assert read is not None
    read.source = source
    return other


def _read_of(fn: Any) -> iobase.Read | None:
    function = function_of_map(getattr(fn, "process", None))
    if function is None or getattr(function, "__qualname__", None) != _QUALNAME_OF_EMIT:
        return None
    read: iobase.Read | None = inspect.getclosurevars(function).nonlocals.get("self")
    return read


_QUALNAME_OF_EMIT = f"{iobase.Read.expand.__qualname__}.<locals>.<lambda>"
