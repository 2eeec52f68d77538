"""Available-now runs on versions of Spark that do not tell Python data sources about them.

Such a Spark would give the whole query a single micro-batch. So the query gets the trigger of other
queries, and the tick source finds the end of the run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparkbeam.plan.model import Plan
from sparkbeam.plan.spark_io import ReadSpec

_UNLIMITED = ("kafka", "rate", "rate-micro-batch")
_LIMIT = "pertrigger"


@dataclass(frozen=True)
class AvailableNowRun:
    """An available-now run whose end is found by the tick source.

    Attributes:
        goes_on: Spark reads sources that may have rows after the end of the run.
        takes_all: each micro-batch reads all rows that its sources have.
    """

    goes_on: bool
    takes_all: bool

    @classmethod
    def from_plan(cls, plan: Plan) -> "AvailableNowRun":
        """Return the run of a plan; sources that can freeze have no rows behind its end."""
        specs = plan.spark_reads.values()
        return cls(not all(spec.hooks.freezes for spec in specs), all(map(_takes_all, specs)))


def has_caught_up(sources: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a micro-batch has read all that its sources reported when it was planned.

    Args:
        sources: of Spark, in a progress. Files report no latest offset.
    """
    return all(source["endOffset"] == source["latestOffset"] for source in sources)


def _takes_all(spec: ReadSpec) -> bool:
    # Imports Beam, which the planner of the tick source does not need.
    from sparkbeam.connectors.storage import FILE_FORMATS

    limited = any(_LIMIT in name.lower() for name, _ in spec.options)
    return spec.format.lower() in (*FILE_FORMATS, *_UNLIMITED) and not limited
