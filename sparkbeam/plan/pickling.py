"""Search for the step that cannot be serialized, which Beam's own error does not name."""

from typing import Any

from apache_beam.internal import pickler
from apache_beam.pipeline import Pipeline, PipelineVisitor


def unpicklable(pipeline: Pipeline) -> tuple[str, Exception] | None:
    """Return the label of the first step whose function cannot be pickled, and why."""
    finder = _Finder()
    pipeline.visit(finder)
    return finder.found


class _Finder(PipelineVisitor):
    def __init__(self) -> None:
        self.found: tuple[str, Exception] | None = None

    def visit_transform(self, transform_node: Any) -> None:
        function = getattr(transform_node.transform, "fn", None)
        if self.found is not None or function is None:
            return
        try:
            pickler.dumps(function)
        except Exception as error:  # Whatever a user's class does when it is pickled.
            self.found = (transform_node.full_label, error)
