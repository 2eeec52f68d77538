"""Metric updates of a function: ``inc`` of a counter, ``update`` of a distribution."""

from collections.abc import Callable
from typing import Any

from apache_beam.metrics import Metrics
from apache_beam.metrics.cells import CounterCell, DistributionCell
from apache_beam.metrics.execution import MetricUpdater

from sparkbeam.columns.expressions import Const, Expression, Held, Item
from sparkbeam.columns.graph import Graph, named
from sparkbeam.columns.operators import as_number
from sparkbeam.columns.python_types import BOOL, INT
from sparkbeam.columns.reasons import FallBack, NotCompiled
from sparkbeam.columns.vectors import Value, Vector
from sparkbeam.upstream.beam import updated_metric

_KINDS = (CounterCell, DistributionCell)
_MOST = (1 << 63) - 1


def counted(graph: Graph, updater: MetricUpdater, items: tuple[Item, ...]) -> Item:
    """Update a counter or a distribution by ints.

    Raises:
        NotCompiled: the metric or its argument is not supported.
    """
    metric = updated_metric(updater)
    if metric.cell not in _KINDS:
        raise NotCompiled(
            f"it updates {metric.name.name!r}, which is neither a counter nor a distribution"
        )
    amount = items[0] if items else graph.const(metric.default)
    if len(items) > 1 or not isinstance(amount, Expression) or amount.shape not in (INT, BOOL):
        raise NotCompiled(f"it updates a metric by {named(amount)}")
    graph.require(amount)
    graph.update(updater, as_number(graph, amount), adds_up=metric.cell is CounterCell)
    return graph.const(None)


def metric_factory(make: Callable[..., Any]) -> Callable[[Graph, tuple[Item, ...]], Item]:
    """Return the columnar form of ``Metrics.counter`` and similar functions."""

    def handled(graph: Graph, items: tuple[Item, ...]) -> Item:
        given = [item.value for item in items if isinstance(item, Const | Held)]
        if len(given) < len(items):
            raise NotCompiled("it makes a metric with a name that depends on the element")
        try:
            return Held(make(*given))
        except Exception as error:
            raise NotCompiled(f"it raises {type(error).__name__}") from None

    return handled


METRICS = {make: metric_factory(make) for make in (Metrics.counter, Metrics.distribution)}
"""Handlers of these functions."""


def amounts_of(amount: Value, count: int) -> list[int]:
    """Return the amounts by which ``count`` elements update a metric."""
    if isinstance(amount, Vector):
        values: list[int] = amount.data.tolist()
        return values
    assert isinstance(amount, int)
    return [amount] * count


def sum_of(amount: Value, count: int) -> int:
    """Return the sum of these amounts.

    Raises:
        FallBack: a counter does not accept the sum.
    """
    data = amount.data if isinstance(amount, Vector) else None
    if data is not None and max(-int(data.min()), int(data.max())) * count <= _MOST:
        return int(data.sum())
    total = sum(amounts_of(amount, count))
    if abs(total) > _MOST:
        raise FallBack("a counter exceeds 64 bits")
    return total
