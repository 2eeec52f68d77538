"""The pipelines that a program makes, and errors that it raises on the way."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_ALWAYS_WRONG = (NameError, ImportError, SyntaxError)
_OF_DATA = (OSError, LookupError, ValueError, ArithmeticError, EOFError, StopIteration)
"""Errors of a program that reads what a pipeline has not written."""


class MadePipelines:
    """Pipelines of a program, each with what has become of it."""

    def __init__(self) -> None:
        self._made: list[Any] = []
        self._started: list[Any] = []
        self._unfinished: list[Any] = []
        """Those made, or started, since the last one has run."""

    def waiting(self) -> list[Any]:
        """Return those with transforms that nobody has run."""
        return [
            each
            for each in self._made
            if each not in self._started and each.applied_labels and not self._is_in_parts(each)
        ]

    def may_lack_results(self, error: BaseException) -> bool:
        """Return whether the program may have failed because its pipelines have no results.

        Args:
            error: raised by the program after at least one pipeline was planned.
        """
        if isinstance(error, _ALWAYS_WRONG):
            return False
        return not self._unfinished or isinstance(error, _OF_DATA)

    def _is_in_parts(self, pipeline: Any) -> bool:
        """Return whether a pipeline is run in parts, which are pipelines too, as in a notebook."""
        return type(pipeline.runner).__name__ == "InteractiveRunner" and bool(self._started)

    def _note(self, pipeline: Any) -> None:
        self._made.append(pipeline)
        self._unfinished.append(pipeline)

    def _run(self, run: Any, pipeline: Any, *args: Any, **kwargs: Any) -> Any:
        self._started.append(pipeline)
        self._unfinished.append(pipeline)
        result = run(pipeline, *args, **kwargs)
        self._unfinished.clear()
        return result


@contextmanager
def watch_pipelines() -> Iterator[MadePipelines]:
    """Yield the pipelines that are made meanwhile."""
    from apache_beam import Pipeline

    beams: Any = Pipeline
    make, run = beams.__init__, beams.run
    found = MadePipelines()

    def init(pipeline: Any, *args: Any, **kwargs: Any) -> None:
        make(pipeline, *args, **kwargs)
        found._note(pipeline)

    def run_noted(pipeline: Any, *args: Any, **kwargs: Any) -> Any:
        return found._run(run, pipeline, *args, **kwargs)

    beams.__init__, beams.run = init, run_noted
    try:
        yield found
    finally:
        beams.__init__, beams.run = make, run
