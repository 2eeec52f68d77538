"""Results of ``result.metrics()``."""

from collections.abc import Iterable
from typing import Any

from apache_beam.metrics.execution import MetricResult
from apache_beam.metrics.metric import MetricResults, MetricsFilter
from apache_beam.portability.api import metrics_pb2
from apache_beam.runners.portability import portable_metrics

from sparkbeam.common.display_text import shortened
from sparkbeam.observe.figures.tables import table_html
from sparkbeam.wire.consolidation import Infos, consolidate


class SparkMetrics(MetricResults):
    """Metrics of a pipeline: committed by successful tasks, attempted by all.

    Args:
        committed: the metrics of each committed task, counted once.
        user_only: whether to leave out Beam's own metrics.
    """

    def __init__(self, committed: Infos, lost: Infos, *, user_only: bool = True) -> None:
        self._committed = _by_kind(committed, user_only)
        self._attempted = _by_kind([*committed, *lost], user_only) if lost else self._committed

    def _repr_html_(self) -> str:
        return table_html(
            ("metric", "step", "kind", "value"),
            (
                (
                    f"{key.metric.namespace}: {key.metric.name}",
                    key.step or "",
                    kind,
                    _shown(self._committed[kind].get(key)),
                )
                for kind, values in self._attempted.items()
                for key in values
            ),
            left=3,
        )

    def query(self, filter: MetricsFilter | None = None) -> dict[str, list[MetricResult]]:
        """Return the metrics that match ``filter``, by kind."""
        return {
            kind: [
                MetricResult(key, self._committed[kind].get(key), attempted)
                for key, attempted in values.items()
                if self.matches(filter, key)
            ]
            for kind, values in self._attempted.items()
        }


_KINDS = (
    MetricResults.COUNTERS,
    MetricResults.DISTRIBUTIONS,
    MetricResults.GAUGES,
    MetricResults.STRINGSETS,
    MetricResults.BOUNDED_TRIES,
)


def _shown(value: Any) -> str:
    """Format a committed value briefly."""
    if value is None:
        return "none committed"
    if isinstance(value, int):
        return f"{value:,}"
    return shortened(" ".join(str(getattr(value, "data", value)).split()), 200)


def _by_kind(infos: Iterable[metrics_pb2.MonitoringInfo], user_only: bool) -> dict[str, Any]:
    values = portable_metrics.from_monitoring_infos(consolidate(infos), user_only)
    return dict(zip(_KINDS, values, strict=True))
