"""Choice of the transform that stands in for one of Beam's.

Beam tells the runner of each transform before it expands it. Of cross-language transforms the
outermost one is replaced, since those of Beam start an expansion service in their expansion, some
already where they construct the next inner one.
"""

from typing import Any

from apache_beam.pipeline import Pipeline
from apache_beam.transforms import PTransform

from sparkbeam.common.entry_points import REPLACEMENTS, function
from sparkbeam.plan.labels import applied_label


def replacement(transform: Any, pipeline: Pipeline) -> PTransform[Any, Any] | None:
    """Return the transform to apply instead; None if this one is applied itself."""
    for kind in type(transform).__mro__:
        make = function(REPLACEMENTS, f"{kind.__module__}.{kind.__qualname__}")
        if make is not None:
            # Loaded with the first of them alone.
            from sparkbeam.common.step_errors import errors_naming

            with errors_naming(applied_label(pipeline)):
                found: PTransform[Any, Any] | None = make(transform, pipeline)
                return found
    return None
