"""Dead letters of steps, which get what the coder of their output refuses."""

from typing import Any

from apache_beam.pipeline import Pipeline

from sparkbeam.replaced.encodable import Encodable
from sparkbeam.upstream.dead_letters import check_outputs


def checked(transform: Any, pipeline: Pipeline) -> None:
    """Have the outputs of a transform checked; Beam applies it itself."""
    check_outputs(transform, _check)


def _check(kind: Any) -> Encodable | None:
    found = Encodable(kind)
    return found if found.decides else None
