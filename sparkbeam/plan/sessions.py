"""Why sessions are not combined over columns, in words."""

from sparkbeam.plan.model import SessionAggregator
from sparkbeam.windows.form import Form


def by_elements(aggregator: SessionAggregator, form: Form | None) -> str:
    """Of an aggregator that takes elements.

    Args:
        aggregator: it.
        form: the vectorised form of the CombineFn; None if it has none.
    """
    reason = "--session_aggregator says so"
    if form is None and aggregator is SessionAggregator.ORDERED:
        reason = "its CombineFn has no vectorised form"
    return f"the {aggregator.value} aggregator of sessions takes them, as {reason}"


def adds_in_order(form: Form) -> str:
    """Of values that add up in their order alone."""
    return f"{form.name} adds floats up as they come, and sessions have them in another order"
