"""Beam's writes of files in a stream: each pane has files of its own, there once and as a whole.

Beam's own transforms write temporary files long before a window fires, name the files of all panes
of a window alike, and delete files as they write others. So a repeated micro-batch or a later pane
loses elements. Here elements are kept in state until a pane fires.
"""

import copy
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.io.filebasedsink import FileBasedSink
from apache_beam.io.fileio import WriteToFiles
from apache_beam.io.iobase import WriteImpl
from apache_beam.options.pipeline_options import StandardOptions
from apache_beam.pvalue import PCollection
from apache_beam.transforms.trigger import DefaultTrigger
from apache_beam.transforms.window import GlobalWindows
from apache_beam.typehints import Any as AnyType
from apache_beam.typehints import Tuple

from sparkbeam.common.arguments import shown
from sparkbeam.errors import ConfigurationError
from sparkbeam.upstream.beam_file_sinks import (
    FilesWrite,
    by_window,
    files_write,
    tells_windows_apart,
    windowed,
)
from sparkbeam.worker.connectors.pane_files import (
    DestinationFiles,
    TemplateFiles,
    WritePanes,
    WriteTuples,
)

_WINDOWS = (
    "in a stream, the files of a window are written when it fires, and the global window never "
    "fires. Apply beam.WindowInto(FixedWindows(60)) before the write"
)


def to_files(
    transform: WriteToFiles, pipeline: beam.Pipeline
) -> "beam.PTransform[Any, Any] | None":
    """Return the replacement of a ``WriteToFiles``; None in batch.

    Raises:
        ConfigurationError: no window of the input fires.
    """
    elements = _input(pipeline)
    if not _in_stream(elements, pipeline):
        return None
    never = _in_one_window(elements) and elements.windowing.triggerfn == DefaultTrigger()
    if never and not elements.is_bounded:
        raise ConfigurationError(f"{_WINDOWS}, or set a trigger.")
    return _WriteToFiles(files_write(transform, pipeline.options))


def to_sink(transform: WriteImpl, pipeline: beam.Pipeline) -> "beam.PTransform[Any, Any] | None":
    """Return the replacement of a write to a ``FileBasedSink``.

    None for other sinks, and in batch. A bounded input is written at its end.

    Raises:
        ConfigurationError: no window of the input fires, or files of all windows have one name.
    """
    elements, sink = _input(pipeline), transform.sink
    if not isinstance(sink, FileBasedSink) or not _in_stream(elements, pipeline):
        return None
    if elements.is_bounded:
        return _WriteAtEnd(sink)
    if _in_one_window(elements) and not sink.triggering_frequency:
        raise ConfigurationError(f"{_WINDOWS}, or set its triggering_frequency=60.")
    found = by_window(sink)
    if not tells_windows_apart(found):
        raise ConfigurationError(
            f"shard_name_template={shown(sink.shard_name_template)} gives the files of all windows "
            "the same names, so each window would overwrite the previous one. Add W, the window, "
            "to it, for example '-W-SSSSS-of-NNNNN'."
        )
    return _WriteToSink(transform, found)


def _input(pipeline: beam.Pipeline) -> PCollection[Any]:
    """Return the input of the transform that is applied."""
    (elements,) = pipeline.transforms_stack[-1].inputs
    return elements


def _in_stream(elements: PCollection[Any], pipeline: beam.Pipeline) -> bool:
    return not elements.is_bounded or pipeline.options.view_as(StandardOptions).streaming


def _in_one_window(elements: PCollection[Any]) -> bool:
    return isinstance(elements.windowing.windowfn, GlobalWindows)


class _WriteToFiles(beam.PTransform[Any, Any]):
    """Write elements by their destinations."""

    def __init__(self, write: FilesWrite) -> None:
        super().__init__("WriteToFiles")
        self._write = write

    def expand(self, elements: PCollection[Any]) -> PCollection[Any]:
        destination = self._write.destination
        pairs = elements | "Pair" >> beam.Map(
            lambda element: (destination(element), element)
        ).with_output_types(Tuple[AnyType, elements.element_type or AnyType])
        return (
            pairs
            | "GroupByDestination" >> beam.GroupByKey()
            | "WritePanes" >> beam.ParDo(WritePanes(DestinationFiles(self._write)))
        )


class _WriteToSink(beam.PTransform[Any, Any]):
    """Write elements to files that are named by a template."""

    def __init__(self, write: WriteImpl, sink: FileBasedSink) -> None:
        super().__init__("WriteImpl")
        self._write = write
        self._sink = sink

    def expand(self, elements: PCollection[Any]) -> PCollection[Any]:
        sink = self._sink
        values = windowed(self._write, elements)
        convert = sink.convert_fn
        if convert is not None:
            gathers = type(convert).finish_bundle is not beam.DoFn.finish_bundle
            values |= "Convert" >> beam.ParDo(_ByWindow(convert) if gathers else convert)
        pairs = values | "Pair" >> beam.Map(lambda value: (None, value)).with_output_types(
            Tuple[None, values.element_type or AnyType]
        )
        return (
            pairs
            | "GroupByWindow" >> beam.GroupByKey()
            | "WritePanes" >> beam.ParDo(WritePanes(TemplateFiles(sink))).with_output_types(str)
        )


class _WriteAtEnd(beam.PTransform[Any, Any]):
    """Write a bounded input to files that are named by a template, also if it is empty."""

    def __init__(self, sink: FileBasedSink) -> None:
        super().__init__("WriteImpl")
        self._sink = sink

    def expand(self, elements: PCollection[Any]) -> PCollection[Any]:
        # The second one makes the group of an empty input.
        some = Tuple[None, Tuple[elements.element_type or AnyType, ...]]
        pairs = (
            elements
            | "Globally" >> beam.WindowInto(GlobalWindows())
            | "Pair" >> beam.Map(lambda element: (None, (element,))).with_output_types(some)
        )
        nothing = beam.Create([(None, ())], reshuffle=False).with_output_types(some)
        files = TemplateFiles(self._sink, of_nothing=True)
        return (
            (pairs, elements.pipeline | "Nothing" >> nothing)
            | "WithNothing" >> beam.Flatten()
            | "Group" >> beam.GroupByKey()
            | "WritePanes" >> beam.ParDo(WriteTuples(files)).with_output_types(str)
        )


class _ByWindow(beam.DoFn):
    """Call a copy of a DoFn for each window.

    Beam's DoFn that makes tables of dictionaries puts a whole bundle into its last window.

    Args:
        convert: the DoFn; its ``process`` takes an element and its window.
    """

    def __init__(self, convert: beam.DoFn) -> None:
        super().__init__()
        self._convert = convert

    def start_bundle(self) -> None:
        """Begin without windows."""
        self._copies: dict[Any, Any] = {}

    def process(self, element: Any, window: Any = beam.DoFn.WindowParam) -> Iterator[Any]:
        """Hand an element to the copy of its window."""
        copied = self._copies.get(window)
        if copied is None:
            copied = self._copies[window] = copy.deepcopy(self._convert)
        yield from copied.process(element, window)

    def finish_bundle(self) -> Iterator[Any]:
        """Emit what the copies have gathered."""
        for copied in self._copies.values():
            yield from copied.finish_bundle()
