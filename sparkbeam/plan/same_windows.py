"""Comparison of the windows of two PCollections."""

from contextlib import suppress
from typing import Any

from apache_beam.runners.pipeline_context import PipelineContext


def in_same_windows(left: Any, right: Any) -> bool:
    """Return whether two PCollections are in the same windows.

    A WindowFn without an ``__eq__`` equals no other one, though Beam writes both into a pipeline
    alike and groups by them as by one.
    """
    fns = left.windowing.windowfn, right.windowing.windowfn
    if fns[0] == fns[1]:
        return True
    context = PipelineContext()
    with suppress(Exception):  # One that cannot be pickled says so where the pipeline is made.
        return bool(fns[0].to_runner_api(context) == fns[1].to_runner_api(context))
    return False
