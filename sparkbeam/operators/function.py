"""Functions of the element, as in ``Map``, ``FlatMap`` and ``Filter``."""

from collections.abc import Mapping
from typing import Self

from apache_beam.runners.worker import operations
from apache_beam.transforms import core

from sparkbeam.columns import Compiled, Record, Refused, Shape
from sparkbeam.columns.python_types import Lists
from sparkbeam.plan.memo import memoized
from sparkbeam.plan.operator import Operator, Result
from sparkbeam.plan.pardo_functions import function_in, over_columns
from sparkbeam.plan.planned_step import PlannedStep
from sparkbeam.upstream.beam import KeyWithNone, tags_of_cogroup
from sparkbeam.worker.steps.functions import FunctionOperation, make_function
from sparkbeam.worker.steps.step import Step


class Function(Operator):
    """A function of the element."""

    @classmethod
    def matches(cls, step: PlannedStep) -> Self | None:
        is_one = isinstance(step.function, core.CallableWrapperDoFn | KeyWithNone)
        return cls(step.label) if is_one else None

    def output_type(self, step: PlannedStep, shape: Shape) -> Result:
        fn = step.function
        tags = None if fn is None else tags_of_cogroup(fn.process)
        if tags is not None:
            return _by_tag(shape, tags, step.tagged)
        return _compiled(step.payload, shape, step.is_global)

    def run(self, step: Step) -> operations.Operation:
        return make_function(FunctionOperation, step)


@memoized
def _compiled(payload: bytes, shape: Shape, may_stamp: bool) -> Compiled | Refused:
    """Compile the function of a ParDo, given by its payload."""
    fn = function_in(payload)
    assert fn is not None
    return over_columns(fn.process, shape, may_stamp=may_stamp)


def _by_tag(group: Shape, tags: tuple[str, ...], tagged: Mapping[str, Shape]) -> Record | None:
    """Return the shape of a CoGroupByKey's group with its values by tag; None if it is unknown.

    Args:
        group: the shape of the group before.
        tags: the possible tags.
        tagged: the shape of the values of each tag.
    """
    if not isinstance(group, Record) or not tagged.keys() >= set(tags):
        return None
    lists = tuple(Lists(tagged[tag]) for tag in tags)
    return Record(tuple, group.names, (group.fields[0], Record(dict, tags, lists)))
