"""Truncation of splittable DoFns in a drain."""

from collections.abc import Callable
from typing import Any

from apache_beam.internal import pickler
from apache_beam.portability import common_urns
from apache_beam.runners import common
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.plan.model import Stage
from sparkbeam.plan.pardo_functions import par_do_payload
from sparkbeam.plan.parsed_stage import parsed

_PROCESS = common_urns.sdf_components.PROCESS_SIZED_ELEMENTS_AND_RESTRICTIONS.urn


def truncation(stage: Stage) -> Callable[[WindowedValue], WindowedValue | None]:
    """Return the function that truncates restrictions of a stage with a splittable DoFn first.

    Returns:
        Maps a restriction with its element, size and state to what remains of it, according to the
        DoFn's ``RestrictionProvider.truncate``; None if nothing remains.
    """
    (transform,) = parsed(stage).with_urn(_PROCESS)
    do_fn = par_do_payload(transform.spec.payload).do_fn
    provider: Any = common.DoFnSignature(pickler.loads(do_fn.payload)[0]).get_restriction_provider()

    def truncated(element: WindowedValue) -> WindowedValue | None:
        (value, (restriction, estimator_state)), _ = element.value
        left = provider.truncate(value, restriction)
        if left is None:
            return None
        size = provider.restriction_size(value, left)
        return element.with_value(((value, (left, estimator_state)), size))

    return truncated
