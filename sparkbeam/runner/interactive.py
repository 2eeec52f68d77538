"""Interactive Beam (``ib.collect``, ``ib.show``, ``ib.head``) on this runner.

Interactive Beam makes the runner write results to a cache of files, and ``collect`` reads it as
soon as the run has started: Beam's DirectRunner only returns at the end of the run.
"""

import re

from apache_beam.pipeline import Pipeline, PipelineVisitor
from apache_beam.testing.test_stream import PairWithTiming

from sparkbeam.errors import UnsupportedTransform
from sparkbeam.plan.labels import without_cells

_WRITE_CACHE = re.compile(r"(^|/)WriteCache_[^/]*$")
"""Labels of the transforms that Interactive Beam adds to a pipeline."""


def is_read_at_once(pipeline: Pipeline) -> bool:
    """Return whether Interactive Beam reads the pipeline's output as soon as it has started."""
    return any(_WRITE_CACHE.search(label) for label in pipeline.applied_labels)


def check(pipeline: Pipeline) -> None:
    """Raise :class:`UnsupportedTransform` for the recording of an unbounded source."""
    pipeline.visit(_Recordings())


class _Recordings(PipelineVisitor):
    def enter_composite_transform(self, transform_node: object) -> None:
        self.visit_transform(transform_node)

    def visit_transform(self, transform_node: object) -> None:
        if isinstance(getattr(transform_node, "transform", None), PairWithTiming):
            raise UnsupportedTransform(
                without_cells(getattr(transform_node, "full_label", "")),
                "Interactive Beam records an unbounded source with the clock of Beam's "
                "DirectRunner, which no other runner has.",
                "Record it with InteractiveRunner() alone, or use bounded data.",
            )
