"""Ids of sinks, for writers and functions that write a repeated micro-batch once."""

from abc import ABC, abstractmethod
from typing import Self


class TakesSinkId(ABC):
    """A writer for ``Foreach``, or a function for ``ForeachBatch``, that recognizes repetitions.

    In streaming, :meth:`with_sink_id` is called before each micro-batch: for a writer in its tasks,
    for a function on the driver. In batch it is called for writers only, whose tasks may repeat.
    """

    @abstractmethod
    def with_sink_id(self, sink_id: str) -> Self:
        """Return the writer or function for a sink.

        Args:
            sink_id: of one sink and its checkpoint, or in batch its run. Only together with it, the
                number of a micro-batch, which each checkpoint counts from 0, tells a repetition.
        """
