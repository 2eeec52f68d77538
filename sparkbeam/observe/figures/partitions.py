"""Progress of a partition of an event hub, for processes without Beam too."""

from dataclasses import dataclass

from sparkbeam.common.partition_status import PartitionStatus


@dataclass(frozen=True)
class PartitionProgress(PartitionStatus):
    """A partition of an event hub when a micro-batch was planned.

    Attributes:
        step: the label of the transform that reads it.
    """

    step: str = ""
