"""Assumptions about Beam's file-based sinks; see :mod:`sparkbeam.upstream.beam`."""

import copy
import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from apache_beam.io import fileio
from apache_beam.io.filebasedsink import (
    DEFAULT_SHARD_NAME_TEMPLATE,
    DEFAULT_WINDOW_SHARD_NAME_TEMPLATE,
    FileBasedSink,
)
from apache_beam.io.iobase import WriteImpl
from apache_beam.options.pipeline_options import GoogleCloudOptions, PipelineOptions
from apache_beam.pvalue import PCollection
from apache_beam.transforms.window import BoundedWindow, GlobalWindow

_TIME = "%Y-%m-%dT%H-%M-%S"


@dataclass(frozen=True)
class FilesWrite:
    """Arguments of a ``WriteToFiles``.

    Attributes:
        temporary: the folder below which temporary files are written.
        destination: the function that returns the destination of an element.
        sink: the function that returns a ``FileSink`` for a destination.
        shards: the number of files of a destination and a pane.
    """

    path: str
    temporary: str
    naming: Callable[..., str]
    destination: Callable[[Any], Any]
    sink: Callable[[Any], fileio.FileSink]
    shards: int


def files_write(transform: fileio.WriteToFiles, options: PipelineOptions) -> FilesWrite:
    """Return the arguments of a ``WriteToFiles`` in a pipeline with these options."""
    path, given = transform.path.get(), transform._temp_directory
    return FilesWrite(
        path,
        (given if isinstance(given, str) else given and given.get())
        or options.view_as(GoogleCloudOptions).temp_location
        or path,
        transform.file_naming_fn,
        transform.destination_fn,
        transform.sink_fn,
        transform.shards,
    )


def windowed(transform: WriteImpl, elements: PCollection[Any]) -> PCollection[Any]:
    """Return the input of a write in windows, by its ``triggering_frequency`` if it has one.

    Raises:
        ValueError: the input is in the global window, and there is no frequency.
    """
    found: PCollection[Any] = transform._apply_windowing(elements)
    return found


def by_window(sink: FileBasedSink) -> FileBasedSink:
    """Return a sink with a template that has the window, if it has Beam's default.

    Beam's own writes change their template likewise, those of a user's sink do not.
    """
    if sink.shard_name_template != DEFAULT_SHARD_NAME_TEMPLATE:
        return sink
    found = copy.copy(sink)
    found.shard_name_template = DEFAULT_WINDOW_SHARD_NAME_TEMPLATE
    found.shard_name_format = sink._template_to_format(DEFAULT_WINDOW_SHARD_NAME_TEMPLATE)
    return found


def tells_windows_apart(sink: FileBasedSink) -> bool:
    """Return whether the names of files differ from window to window."""
    return any(f"%({name})" in sink.shard_name_format for name in ("window", "window_utc", "uuid"))


def final_name(sink: FileBasedSink, window: BoundedWindow, shard: int, shards: int) -> str:
    """Return the path of a file, as the sink's template says.

    A UUID in the template is drawn from ``random``, so that it repeats with the micro-batch.
    """
    bounds = None
    if not isinstance(window, GlobalWindow):
        start, end = (time.to_utc_datetime().strftime(_TIME) for time in (window.start, window.end))
        bounds = f"[{start}, {end})"
    values = {
        "shard_num": shard,
        "num_shards": shards,
        "uuid": uuid.UUID(int=random.getrandbits(128), version=4),
        "window": window,
        "window_utc": bounds,
    }
    prefix, suffix = sink.file_path_prefix.get(), sink.file_name_suffix.get()
    name: str = sink.shard_name_format % values
    return f"{prefix}{name}{suffix}"
