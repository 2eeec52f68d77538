"""Ids of sinks, for writers and functions that write a repeated micro-batch once."""

from abc import ABC, abstractmethod
from typing import Self


class TakesSinkId(ABC):
    """A writer for ``Foreach``, or a function for ``ForeachBatch``, that recognizes repetitions.

    Spark repeats a micro-batch that it has not committed, with the same number and the same rows.
    A number alone says nothing, as each checkpoint counts from 0; with the id of the sink it does.

    In streaming, :meth:`with_sink_id` is called before each micro-batch: for a writer in its tasks,
    for a function on the driver. In batch it is called for writers only, as Spark repeats tasks; a
    function is called once, with the number 0.
    """

    @abstractmethod
    def with_sink_id(self, sink_id: str) -> Self:
        """Return the writer or function for a sink.

        Args:
            sink_id: differs for each sink of a pipeline. In streaming it is the same for all starts
                over a checkpoint, in batch for all tasks of a run.
        """
