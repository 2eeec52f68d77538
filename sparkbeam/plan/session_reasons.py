"""Why sessions are not combined over columns, in words."""

from sparkbeam.plan.combine_columns import NO_FORM
from sparkbeam.plan.model import SessionAggregator
from sparkbeam.windows.vectorized_form import Form, Kind

ALONE = "its sessions are merged one by one"
"""Of those that have another trigger than the default one."""


def by_elements(aggregator: SessionAggregator, form: Form | None) -> str:
    """Of an aggregator that takes elements.

    Args:
        aggregator: it.
        form: the vectorised form of the CombineFn; None if it has none.
    """
    reason = "--session_aggregator says so"
    if form is None and aggregator is SessionAggregator.ORDERED:
        reason = NO_FORM
    return f"the {aggregator.value} aggregator of sessions takes them, as {reason}"


def in_another_order(form: Form, kind: Kind) -> str | None:
    """Of numbers that add up in an order in which sessions do not have them; None of others."""
    if form.is_ordered or not form.needs_order(kind):
        return None
    return f"{form.name} adds floats up as they come, and sessions have them in another order"
