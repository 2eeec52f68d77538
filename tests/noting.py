"""Notes what comes out of a pipeline that runs in this process, with all that belongs to it."""

from collections.abc import Callable
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from in_process_batch import BatchRunner

found: list[tuple[Any, str, int, str]] = []
"""Of each element the value, the window, the timestamp in microseconds, and the pane."""


def note(
    element: Any,
    window: Any = beam.DoFn.WindowParam,
    timestamp: Any = beam.DoFn.TimestampParam,
    pane: Any = beam.DoFn.PaneInfoParam,
) -> None:
    """The function of the last step."""
    found.append((element, repr(window), timestamp.micros, repr(pane)))


def noted(build: Callable[[beam.Pipeline], Any], *options: str, runner: Any = None) -> list[str]:
    """Run a pipeline, and return the elements that it makes with all that belongs to them, sorted.

    Args:
        build: makes the pipeline, and returns the PCollection of the elements.
        options: the options of the pipeline.
        runner: the runner; one in this process without one.
    """
    found.clear()
    with beam.Pipeline(runner or BatchRunner(), options=PipelineOptions([*options])) as p:
        _ = build(p) | "note" >> beam.Map(note)
    return sorted(map(repr, found))


def values(build: Callable[[beam.Pipeline], Any], *options: str, runner: Any = None) -> list[Any]:
    """Run a pipeline as :func:`noted` does, and return the values of its elements."""
    noted(build, *options, runner=runner)
    return [value for value, *_ in found]
