"""The pipelines that a program makes, and errors that it raises on the way."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

_ALWAYS_WRONG = (NameError, ImportError, SyntaxError)
_OF_DATA = (OSError, LookupError, ValueError, ArithmeticError, EOFError, StopIteration)
"""Errors of a program that reads what a pipeline has not written."""


@dataclass
class MadePipelines:
    """Pipelines of a program.

    Attributes:
        has_unfinished: one was made, or started, since the last one has run.
    """

    made: list[Any] = field(default_factory=list)
    started: list[Any] = field(default_factory=list)
    has_unfinished: bool = False

    def waiting(self) -> list[Any]:
        """Return those with transforms that nobody has run."""
        # In a notebook a pipeline is run in parts, which are pipelines too.
        in_parts = "InteractiveRunner" if self.started else None
        left = (each for each in self.made if each not in self.started and each.applied_labels)
        return [each for each in left if type(each.runner).__name__ != in_parts]

    def may_lack_results(self, error: BaseException) -> bool:
        """Return whether the program may have failed because its pipelines have no results.

        Args:
            error: raised by the program after at least one pipeline was planned.
        """
        if isinstance(error, _ALWAYS_WRONG):
            return False
        return not self.has_unfinished or isinstance(error, _OF_DATA)


@contextmanager
def watch_pipelines() -> Iterator[MadePipelines]:
    """Yield the pipelines that are made meanwhile."""
    from apache_beam import Pipeline

    beams: Any = Pipeline
    make, run = beams.__init__, beams.run
    found = MadePipelines()

    def init(pipeline: Any, *args: Any, **kwargs: Any) -> None:
        make(pipeline, *args, **kwargs)
        found.made.append(pipeline)
        found.has_unfinished = True

    def run_noted(pipeline: Any, *args: Any, **kwargs: Any) -> Any:
        found.started.append(pipeline)
        found.has_unfinished = True
        result = run(pipeline, *args, **kwargs)
        found.has_unfinished = False
        return result

    beams.__init__, beams.run = init, run_noted
    try:
        yield found
    finally:
        beams.__init__, beams.run = make, run
