"""Labels without the number or hash of a notebook's cell: the same each time."""

import re
import sys
from itertools import chain, count
from typing import Any

from apache_beam.pipeline import Pipeline
from apache_beam.portability.api import beam_runner_api_pb2

_IN_CELL = re.compile(
    r"<lambda at (<ipython-input-[^>]*>|<?(ipython-input-|command-)[\d-]+[\w-]*(\.py)?>?):\d+>"
)
_IN_NUMBER = re.compile(r"<lambda at \d+\.py:\d+>")
"""Lambda in a cell of Jupyter, or in a program whose name is a number."""
_LAMBDA = "<lambda>"
_PROMPT = re.compile(r"(^|/)(\[\d+\]: )+")
"""Number of a cell that Beam puts before a transform each time a notebook applies it."""


def without_cells(label: str) -> str:
    """Return a label that does not say in which cell of a notebook it was given."""
    label = _IN_CELL.sub(_LAMBDA, label)
    ipython: Any = sys.modules.get("IPython")
    if ipython is None or ipython.get_ipython() is None:
        return label
    return _PROMPT.sub(r"\1", _IN_NUMBER.sub(_LAMBDA, label))


def applied_label(pipeline: Pipeline) -> str:
    """Return the label of the transform that a pipeline is expanding."""
    return without_cells(pipeline.transforms_stack[-1].full_label)


def rename(pipeline: beam_runner_api_pb2.Pipeline) -> None:
    """Give the transforms of a pipeline labels without notebook cells.

    Equal labels get a number, in the order in which the user has applied the transforms.
    """
    transforms = pipeline.components.transforms
    before = {id: transform.unique_name for id, transform in transforms.items()}
    if all(label == without_cells(label) for label in before.values()):
        return
    used: set[str] = set()

    def visit(id: str, old_parent: str, new_parent: str) -> None:
        old = before[id]
        own = old.removeprefix(f"{old_parent}/") if old_parent else old
        new = without_cells(own)
        new = f"{new_parent}/{new}" if new_parent and own != old else new
        numbered = (f"{new}_{number}" for number in count(2))
        new = next(each for each in chain([new], numbered) if each not in used)
        used.add(new)
        transforms[id].unique_name = new
        for part in transforms[id].subtransforms:
            visit(part, old, new)

    for root in pipeline.root_transform_ids:
        visit(root, "", "")
