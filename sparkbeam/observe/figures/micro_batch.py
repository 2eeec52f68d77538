"""Figures of a micro-batch, for observers of a running query; stored with its feedback."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from sparkbeam.common.untrusted_json import parsed
from sparkbeam.observe.figures.partitions import PartitionProgress
from sparkbeam.observe.figures.phases import Phases, known
from sparkbeam.wire.messages import Holder
from sparkbeam.wire.reports import ElementCounts
from sparkbeam.wire.timestamps import MIN_MICROS


@dataclass(frozen=True)
class MicroBatchStage:
    """A stage at the end of a micro-batch, over all shards, in the form that a checkpoint stores.

    Times are in microseconds. With the micro-batches before, it becomes a
    :class:`.StageProgress`.

    Attributes:
        total: the elements of all micro-batches so far.
        dropped_late: the late elements dropped in all micro-batches so far.
        input_watermark, output_watermark: the minimum over all shards.
        busy: the number of tasks with input in the micro-batch, and the elements in the busiest
            one.
        holder: the state that holds the output watermark; None if nothing does.
    """

    new: ElementCounts = field(default_factory=ElementCounts)
    total: ElementCounts = field(default_factory=ElementCounts)
    dropped_late: int = 0
    input_watermark: int = MIN_MICROS
    output_watermark: int = MIN_MICROS
    keys: int = 0
    state_bytes: int = 0
    busy: tuple[int, int] = (0, 0)
    holder: Holder | None = None


@dataclass(frozen=True)
class MicroBatch:
    """A micro-batch; times are in microseconds by the machine's clock unless stated otherwise.

    Attributes:
        number: the number of its tick; the first of a query is 1.
        ended: the time when its output was complete.
        elements: the number of elements that the pipeline has read.
        source_watermark: the minimum watermark of the sources, in event time; None if it does not
            measure the pipeline's lag.
        stages: by address; in the driver that runs them, by id.
        names: the labels of their transforms, likewise.
        phases: the durations of its phases; when stored, those of the sink except for the writing.
    """

    number: int
    ended: int
    duration: int
    elements: int
    source_watermark: int | None
    stages: Mapping[str, MicroBatchStage]
    names: Mapping[str, str] = field(default_factory=dict)
    partitions: tuple[PartitionProgress, ...] = ()
    phases: Phases = field(default_factory=dict)

    def content(self) -> dict[str, Any]:
        """Return the micro-batch as JSON-compatible data."""
        return asdict(self)

    @classmethod
    def readable(cls, content: Mapping[str, Any]) -> "MicroBatch | None":
        """Parse content like :meth:`from_content`, but return None for malformed content."""
        with suppress(ValueError):
            return cls.from_content(content)
        return None

    @classmethod
    def from_content(cls, content: Mapping[str, Any]) -> "MicroBatch":
        """Parse untrusted content written by :meth:`content`.

        Raises:
            ValueError: the content is malformed.
        """
        found = parsed(cls, content)
        return replace(found, phases=known(found.phases))
